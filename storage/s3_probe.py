"""Checks a destination by using it: writes a small object under `<prefix>/tmp/` and removes it."""

import contextlib

from botocore.exceptions import BotoCoreError, ClientError

from storage.ids import new_id
from storage.s3_destination import S3Destination, content_md5, endpoint_problem
from storage.s3_errors import S3Failure, describe

_BODY = b"Slipway checks that it may write here. This file may be deleted.\n"
_TIMEOUT_SECONDS = 10.0


async def probe(destination: S3Destination) -> S3Failure | None:
    """Why exports could not write to the destination; None if they can. Needs no more than s3:PutObject."""
    endpoint = destination.config.get("endpoint_url")
    if endpoint and (problem := await endpoint_problem(endpoint, destination.allow_private_endpoints)):
        return S3Failure("bad endpoint", problem, lasting=True)
    key = destination.key(f"tmp/{new_id()}.txt")
    try:
        async with destination.client(attempts=2, timeout_seconds=_TIMEOUT_SECONDS) as client:
            await client.put_object(
                Bucket=destination.bucket,
                Key=key,
                Body=_BODY,
                ContentMD5=content_md5(_BODY),
                **destination.put_options,
            )
            with contextlib.suppress(BotoCoreError, ClientError, OSError):
                await client.delete_object(Bucket=destination.bucket, Key=key)
    except Exception as error:
        return describe(error)
    return None
