"""The platform's own objects (uploaded projects) in its bucket of the object store."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from settings import Settings

_PART_BYTES = 8 * 1024 * 1024
_READ_BYTES = 1024 * 1024


class ObjectStoreError(Exception):
    """The object store cannot be reached or refuses the platform's access."""


class ObjectTooLargeError(Exception):
    """More bytes came than allowed; nothing was stored."""


class ObjectMissingError(Exception):
    """No such object."""


class ObjectStore:
    """One bucket. `async with ObjectStore(...)`; the connection is opened by the first use."""

    def __init__(
        self, endpoint_url: str, region: str, key_id: str | None, secret: str | None, bucket: str
    ) -> None:
        self._bucket = bucket
        self._options: dict[str, Any] = {
            "endpoint_url": endpoint_url,
            "region_name": region,
            "aws_access_key_id": key_id,
            "aws_secret_access_key": secret,
            "config": AioConfig(connect_timeout=5, read_timeout=30, retries={"max_attempts": 2}),
        }
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def __aenter__(self) -> "ObjectStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def put(self, key: str, chunks: AsyncIterator[bytes], limit_bytes: int) -> tuple[int, str]:
        """Store what arrives; its size in bytes and SHA-256.

        Raises:
            ObjectTooLargeError: more than `limit_bytes`; nothing stays behind.
            ObjectStoreError: the store cannot be reached.
        """
        client = await self._open()
        digest = hashlib.sha256()
        size, number, upload_id = 0, 0, None
        buffer = bytearray()
        parts: list[dict[str, Any]] = []

        async def send_part() -> None:
            nonlocal number, upload_id
            if upload_id is None:
                reply = await client.create_multipart_upload(Bucket=self._bucket, Key=key)
                upload_id = reply["UploadId"]
            number += 1
            reply = await client.upload_part(
                Bucket=self._bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=bytes(buffer)
            )
            parts.append({"ETag": reply["ETag"], "PartNumber": number})
            buffer.clear()

        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > limit_bytes:
                    raise ObjectTooLargeError
                digest.update(chunk)
                buffer += chunk
                if len(buffer) >= _PART_BYTES:
                    await send_part()
            if upload_id is None:
                await client.put_object(Bucket=self._bucket, Key=key, Body=bytes(buffer))
            else:
                if buffer:
                    await send_part()
                await client.complete_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
                )
        except BaseException as error:
            if upload_id is not None:
                await self._abort(client, key, upload_id)
            if isinstance(error, (BotoCoreError, ClientError, OSError)):
                raise ObjectStoreError(str(error)) from error
            raise
        return size, digest.hexdigest()

    async def put_whole(self, key: str, data: bytes) -> None:
        """Store bytes in one request: what dies meanwhile leaves no part of an upload behind.

        Raises:
            ObjectStoreError: the store cannot be reached.
        """
        client = await self._open()
        try:
            await client.put_object(Bucket=self._bucket, Key=key, Body=data)
        except (BotoCoreError, ClientError, OSError) as error:
            raise ObjectStoreError(str(error)) from error

    async def download(self, key: str, path: Path) -> str:
        """Write an object to a file; its SHA-256.

        Raises:
            ObjectMissingError: no such object.
            ObjectStoreError: the store cannot be reached.
        """
        client = await self._open()
        digest = hashlib.sha256()
        try:
            reply = await client.get_object(Bucket=self._bucket, Key=key)
            async with reply["Body"] as body:
                with path.open("wb") as file:
                    while chunk := await body.read(_READ_BYTES):
                        digest.update(chunk)
                        file.write(chunk)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket", "404"):
                raise ObjectMissingError(key) from error
            raise ObjectStoreError(str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise ObjectStoreError(str(error)) from error
        return digest.hexdigest()

    async def read(self, key: str) -> AsyncIterator[bytes]:
        """An object's bytes, in chunks.

        Raises:
            ObjectMissingError: no such object.
            ObjectStoreError: the store cannot be reached.
        """
        client = await self._open()
        try:
            reply = await client.get_object(Bucket=self._bucket, Key=key)
            async with reply["Body"] as body:
                # Not through `body.content`: a body with a checksum has none.
                while chunk := await body.read(_READ_BYTES):
                    yield chunk
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket", "404"):
                raise ObjectMissingError(key) from error
            raise ObjectStoreError(str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise ObjectStoreError(str(error)) from error

    async def delete(self, key: str) -> None:
        """Remove an object; a missing one is fine."""
        client = await self._open()
        try:
            await client.delete_object(Bucket=self._bucket, Key=key)
        except (BotoCoreError, ClientError, OSError) as error:
            raise ObjectStoreError(str(error)) from error

    async def _open(self) -> Any:
        if self._client is not None:
            return self._client
        client = await self._stack.enter_async_context(get_session().create_client("s3", **self._options))
        try:
            await self._ensure_bucket(client)
        except (BotoCoreError, ClientError, OSError) as error:
            raise ObjectStoreError(str(error)) from error
        self._client = client
        return client

    async def _ensure_bucket(self, client: Any) -> None:
        try:
            await client.head_bucket(Bucket=self._bucket)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            await client.create_bucket(Bucket=self._bucket)

    async def _abort(self, client: Any, key: str, upload_id: str) -> None:
        try:
            await client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)
        except (BotoCoreError, ClientError, OSError):
            return


def open_object_store(settings: Settings) -> ObjectStore:
    """The platform's bucket as the settings name it."""
    secret = settings.s3_secret_access_key
    return ObjectStore(
        settings.s3_endpoint,
        settings.s3_region,
        settings.s3_access_key_id,
        secret.get_secret_value() if secret else None,
        settings.s3_bucket,
    )
