"""Buckets of the platform's object store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError


class ObjectStoreError(Exception):
    """The object store refused a call or did not answer."""


@dataclass(frozen=True)
class BucketAccess:
    """Address and keys of an S3-compatible object store; without keys, the environment's own are used."""

    endpoint_url: str
    region: str
    access_key_id: str | None
    secret_access_key: str | None

    async def list_buckets(self) -> list[str]:
        """Names of all buckets that the keys may list.

        Raises:
            ObjectStoreError: no answer, or a refusal.
        """
        async with self._client() as client:
            answer = await client.list_buckets()
        return [bucket["Name"] for bucket in answer["Buckets"]]

    async def ensure_bucket(self, name: str) -> None:
        """Make the bucket unless it exists and may be used.

        Raises:
            ObjectStoreError: it can be neither used nor made.
        """
        async with self._client() as client:
            try:
                await client.head_bucket(Bucket=name)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                await client.create_bucket(Bucket=name)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        config = AioConfig(
            connect_timeout=2,
            read_timeout=5,
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
        )
        try:
            async with get_session().create_client(
                "s3",
                endpoint_url=self.endpoint_url,
                region_name=self.region,
                aws_access_key_id=self.access_key_id,
                aws_secret_access_key=self.secret_access_key,
                config=config,
            ) as client:
                yield client
        except (BotoCoreError, ClientError) as error:
            raise ObjectStoreError(f"Object store at {self.endpoint_url}: {error}") from None
