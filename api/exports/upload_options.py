"""Which options of an upload a destination may set (`s3_additional_kwargs`)."""

from typing import Any

# What PutObject and CreateMultipartUpload both know, and what does not change where or what is written.
ALLOWED = frozenset(
    {
        "ACL",
        "BucketKeyEnabled",
        "CacheControl",
        "ExpectedBucketOwner",
        "GrantFullControl",
        "GrantRead",
        "GrantReadACP",
        "GrantWriteACP",
        "Metadata",
        "ObjectLockLegalHoldStatus",
        "ObjectLockMode",
        "ObjectLockRetainUntilDate",
        "RequestPayer",
        "SSEKMSEncryptionContext",
        "SSEKMSKeyId",
        "ServerSideEncryption",
        "StorageClass",
        "Tagging",
    }
)
_MAX_TEXT = 2048


def refused_options(options: dict[str, Any]) -> str | None:
    """Why the options are refused; None if they may be used."""
    if unknown := sorted(set(options) - ALLOWED):
        return f"options that may not be set: {', '.join(unknown)[:300]}; allowed are: {', '.join(sorted(ALLOWED))}"
    for name, value in options.items():
        if name == "Metadata":
            pairs = value.items() if isinstance(value, dict) else [("", None)]
            fine = all(isinstance(item, str) and len(item) <= _MAX_TEXT for pair in pairs for item in pair)
        elif name == "BucketKeyEnabled":
            fine = isinstance(value, bool)
        else:
            fine = isinstance(value, str) and 0 < len(value) <= _MAX_TEXT
        if not fine:
            return f"the value of {name} has the wrong type or is too long"
    return None
