"""Why an object store refused: families that a user can tell apart, in words that say what to mend."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import aiohttp
from botocore import exceptions as boto


@dataclass(frozen=True)
class S3Failure:
    """`lasting`: repeating the call will not help, somebody has to correct the destination or the bucket."""

    family: str
    reason: str
    lasting: bool


class S3Error(Exception):
    """A call to an object store failed. Its text never holds a credential."""

    def __init__(self, failure: S3Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


# Error codes of S3 and of what is compatible with it, with who must do what.
_LASTING: dict[str, tuple[str, str]] = {
    "InvalidAccessKeyId": (
        "wrong key",
        "The access key ID you provided does not exist at this endpoint: check access_key_id, and that it belongs"
        " to this provider.",
    ),
    "SignatureDoesNotMatch": (
        "wrong key",
        "The signature does not match: secret_access_key is not the secret of this access key, or the endpoint needs"
        " another region.",
    ),
    "InvalidToken": (
        "wrong key",
        "The session token is not valid for these keys: send a fresh session_token.",
    ),
    "InvalidClientTokenId": (
        "wrong key",
        "The access key ID you provided does not exist: check access_key_id.",
    ),
    "ExpiredToken": ("wrong key", "The session token has expired: send fresh temporary credentials."),
    "RequestTimeTooSkewed": ("clock", "The clock of this service and that of the endpoint differ too much."),
    "NoSuchBucket": (
        "no bucket",
        "The bucket does not exist at this endpoint: create it, or correct bucket_name, region or endpoint_url.",
    ),
    "InvalidBucketName": ("no bucket", "Bucket is not valid: bucket_name breaks the naming rules of S3."),
    "AccessDenied": (
        "no permission",
        "Access denied: the credentials are known, but may not write here; grant s3:PutObject on the bucket and the"
        " prefix.",
    ),
    "AllAccessDisabled": ("no permission", "All access to this bucket has been disabled by its provider."),
    "AccountProblem": (
        "no permission",
        "The provider reports a problem with the account of these credentials.",
    ),
    "PermanentRedirect": (
        "bad endpoint",
        "The bucket lives in another region: correct region or endpoint_url.",
    ),
    "AuthorizationHeaderMalformed": (
        "bad endpoint",
        "The endpoint expects another region than the one given: correct region.",
    ),
    "IllegalLocationConstraintException": (
        "bad endpoint",
        "The bucket lives in another region: correct region.",
    ),
    "EntityTooLarge": ("limit", "The object store refuses objects of this size."),
    "InvalidArgument": ("bad option", "The object store refuses an option: check s3_additional_kwargs."),
    "InvalidRequest": ("bad option", "The object store refuses the request: check s3_additional_kwargs."),
    "NotImplemented": (
        "bad option",
        "The object store does not know a feature that the configuration asks for.",
    ),
    "MethodNotAllowed": (
        "bad endpoint",
        "The endpoint does not accept uploads: it is not an S3 API, or read-only.",
    ),
    "KMS.DisabledException": ("encryption", "The KMS key is disabled."),
    "KMS.NotFoundException": ("encryption", "The KMS key does not exist: check SSEKMSKeyId."),
    "QuotaExceeded": ("limit", "The bucket's quota is used up."),
}
_BY_STATUS = {
    301: "PermanentRedirect",
    307: "PermanentRedirect",
    403: "AccessDenied",
    404: "NoSuchBucket",
    405: "MethodNotAllowed",
}


@contextmanager
def s3_errors() -> Iterator[None]:
    """Turns what botocore and the network raise into `S3Error`."""
    try:
        yield
    except asyncio.CancelledError:
        raise
    except (boto.BotoCoreError, boto.ClientError, aiohttp.ClientError, OSError, TimeoutError) as error:
        raise S3Error(describe(error)) from error


def describe(error: BaseException) -> S3Failure:
    """The family of an error, and its reason in words."""
    if isinstance(error, boto.ClientError):
        return _of_answer(error)
    if isinstance(error, boto.ParamValidationError):
        return S3Failure("bad option", f"The request cannot be built: {error}", lasting=True)
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return S3Failure(
            "wrong key", "No credentials were given, and the service has none of its own.", lasting=True
        )
    causes = list(_causes(error))
    if any(isinstance(cause, PermissionError) for cause in causes):
        return S3Failure(
            "bad endpoint",
            "Invalid endpoint: endpoint_url leads into this service's own network.",
            lasting=True,
        )
    if any(isinstance(cause, (ssl.SSLError, boto.SSLError, aiohttp.ClientSSLError)) for cause in causes):
        return S3Failure(
            "TLS",
            "Invalid endpoint: no TLS connection could be made; its certificate is not trusted or not for this host,"
            " or it does not speak TLS.",
            lasting=False,
        )
    if any(isinstance(cause, (TimeoutError, boto.HTTPClientError)) and _timed_out(cause) for cause in causes):
        return S3Failure("timeout", "Timeout: the endpoint did not answer in time.", lasting=False)
    if isinstance(error, (boto.InvalidEndpointDiscoveryConfigurationError, ValueError)):
        return S3Failure("bad endpoint", f"Invalid endpoint: {error}", lasting=True)
    return S3Failure(
        "bad endpoint",
        "Invalid endpoint: it cannot be reached; its host is unknown or nothing listens there.",
        lasting=False,
    )


def _of_answer(error: boto.ClientError) -> S3Failure:
    response = error.response
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code.isdigit() or code not in _LASTING:
        code = _BY_STATUS.get(status, code) if status in _BY_STATUS and code != "NoSuchUpload" else code
    if code in _LASTING:
        family, reason = _LASTING[code]
        said = str(response.get("Error", {}).get("Message", "")).strip()[:300]
        if family in ("bad option", "encryption", "limit") and said:
            reason = f"{reason} It says: {said}"
        return S3Failure(family, reason, lasting=True)
    return S3Failure("object store", f"The object store answered {status} {code}.", lasting=False)


def _timed_out(cause: BaseException) -> bool:
    return isinstance(cause, (TimeoutError, boto.ConnectTimeoutError, boto.ReadTimeoutError))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        inner = getattr(error, "kwargs", {}).get("error") if isinstance(error, boto.BotoCoreError) else None
        following = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
        error = following if following is not error else None
