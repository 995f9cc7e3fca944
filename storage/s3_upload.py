"""Uploads to a destination: objects appear whole, or not at all."""

import asyncio
import contextlib
from typing import Any

from storage.s3_destination import S3Destination, content_md5
from storage.s3_errors import S3Error, s3_errors

MIN_PART_BYTES = 5 * 1024 * 1024
MAX_PARTS = 10_000


class Bucket:
    """A destination's bucket with an open client. Every method raises `S3Error`."""

    def __init__(self, destination: S3Destination, client: Any) -> None:
        self.destination = destination
        self._client = client

    async def put(self, key: str, body: bytes) -> None:
        """Write a small object at once."""
        checksum = await asyncio.to_thread(content_md5, body)
        with s3_errors():
            await self._client.put_object(
                Bucket=self.destination.bucket,
                Key=key,
                Body=body,
                ContentMD5=checksum,
                **self.destination.put_options,
            )

    async def create_upload(self, key: str) -> str:
        """Open a multipart upload; its id."""
        with s3_errors():
            reply = await self._client.create_multipart_upload(
                Bucket=self.destination.bucket, Key=key, **self.destination.put_options
            )
        return str(reply["UploadId"])

    async def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> dict[str, Any]:
        """Send a part; what completing the upload needs of it."""
        checksum = await asyncio.to_thread(content_md5, body)
        with s3_errors():
            reply = await self._client.upload_part(
                Bucket=self.destination.bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                Body=body,
                ContentMD5=checksum,
            )
        return {"ETag": reply["ETag"], "PartNumber": number}

    async def complete_upload(self, key: str, upload_id: str, parts: list[dict[str, Any]]) -> None:
        """Make the object visible."""
        with s3_errors():
            await self._client.complete_multipart_upload(
                Bucket=self.destination.bucket,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": sorted(parts, key=lambda part: int(part["PartNumber"]))},
            )

    async def abort_upload(self, key: str, upload_id: str) -> bool:
        """Drop an upload; True unless it may still be there."""
        try:
            with s3_errors():
                await self._client.abort_multipart_upload(
                    Bucket=self.destination.bucket, Key=key, UploadId=upload_id
                )
        except S3Error as error:
            return "NoSuchUpload" in error.failure.reason or "404" in error.failure.reason
        return True

    async def abort_uploads_under(self, prefix: str) -> None:
        """Drop every upload under `prefix`, as far as the credentials may list them."""
        with contextlib.suppress(S3Error), s3_errors():
            reply = await self._client.list_multipart_uploads(Bucket=self.destination.bucket, Prefix=prefix)
            for upload in reply.get("Uploads") or []:
                if upload["Key"].startswith(prefix):
                    await self.abort_upload(upload["Key"], upload["UploadId"])

    async def delete(self, key: str) -> bool:
        """Remove an object; False if that was refused."""
        try:
            with s3_errors():
                await self._client.delete_object(Bucket=self.destination.bucket, Key=key)
        except S3Error:
            return False
        return True
