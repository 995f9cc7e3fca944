"""Health of servers and of our own processes, checked by using them."""

import ssl
from collections.abc import Sequence
from datetime import timedelta
from functools import cache

import httpx
import psycopg
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from stack.buckets import BucketAccess, ObjectStoreError

_TIMEOUT_SECONDS = 3.0


class UnhealthyError(Exception):
    """A process runs, or seems to, and does not serve; says what it answered."""


async def check_postgres(url: str) -> None:
    """A connection and a query."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=int(_TIMEOUT_SECONDS))
        async with connection:
            await connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise UnhealthyError(f"PostgreSQL: {error}") from None


async def connect_temporal(address: str) -> Client:
    """A client of Temporal at `address`; namespace, TLS and key as temporalio.envconfig reads them."""
    options = ClientConfig.load_client_connect_config()
    options["target_host"] = address
    return await Client.connect(**options, lazy=True)


async def check_temporal(client: Client) -> None:
    """The frontend's gRPC health call."""
    try:
        healthy = await client.service_client.check_health(timeout=timedelta(seconds=_TIMEOUT_SECONDS))
    except (RPCError, RuntimeError) as error:
        raise UnhealthyError(f"Temporal: {error}") from None
    if not healthy:
        raise UnhealthyError("Temporal: the frontend reports that it does not serve.")


async def check_object_store(access: BucketAccess) -> None:
    """A listing of the buckets; a key that may not list them is answered by a server that works.

    Signed here: a client of the SDK would cost more than all other checks together.
    """
    if access.access_key_id is None:
        await _check_with_ambient_keys(access)
        return
    url = access.endpoint_url.rstrip("/") + "/"
    request = AWSRequest("GET", url)
    credentials = Credentials(access.access_key_id, access.secret_access_key or "")
    S3SigV4Auth(credentials, "s3", access.region).add_auth(request)
    try:
        async with _http() as client:
            response = await client.get(url, headers=dict(request.headers))
    except httpx.HTTPError as error:
        raise UnhealthyError(f"Object store: {error or type(error).__name__}") from None
    if response.status_code != httpx.codes.OK and "<Code>AccessDenied</Code>" not in response.text:
        raise UnhealthyError(f"Object store: {response.status_code} {response.text[:200]}")


async def _check_with_ambient_keys(access: BucketAccess) -> None:
    try:
        await access.list_buckets()
    except ObjectStoreError as error:
        raise UnhealthyError(str(error)) from None


async def check_api(url: str) -> None:
    """GET /readyz, which in turn asks PostgreSQL and Temporal."""
    try:
        async with _http() as client:
            response = await client.get(f"{url}/readyz")
    except httpx.HTTPError as error:
        raise UnhealthyError(f"API: {error or type(error).__name__}") from None
    if response.status_code != httpx.codes.OK:
        raise UnhealthyError(f"API: {response.status_code} {response.text[:200]}")


async def check_pollers(
    client: Client, queues: Sequence[tuple[str, "TaskQueueType.ValueType"]], since: float
) -> None:
    """Each task queue was asked for work at `since` (seconds since the epoch) or later."""
    for name, kind in queues:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind
        )
        try:
            answer = await client.workflow_service.describe_task_queue(
                request, timeout=timedelta(seconds=_TIMEOUT_SECONDS)
            )
        except (RPCError, RuntimeError) as error:
            raise UnhealthyError(f"Task queue {name}: {error}") from None
        if not any(poller.last_access_time.ToMilliseconds() / 1000 >= since for poller in answer.pollers):
            raise UnhealthyError(f"Nobody polls the task queue {name}.")


def _http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False, verify=_tls())


@cache
def _tls() -> ssl.SSLContext:
    """Made once: it reads every certificate authority of the system."""
    return ssl.create_default_context()
