"""Every object in the store has a row that refers to it, or is on its way out: whoever dies, whatever is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langsmith import Client
from langsmith.utils import LangSmithNotFoundError
from s3fs import S3FileSystem

from activities.trace_retention import TraceRetentionActivities
from settings import Settings
from storage.database import Database
from storage.objects import ObjectMissingError, ObjectStore
from storage.traces.deletion import doomed_objects
from storage.traces.uploads import UploadExpiredError, announce_uploads, claim_uploads
from tests.conftest import Workspace
from tests.runtime.harness import eventually
from tests.stacks import Stack
from tests.traces.own_api import OwnApi
from tests.traces.wire import MULTIPART, json_part, multipart, root_run
from workflows.messages.trace_retention import TraceRetention, TraceRetentionBatch

Query = Callable[..., Any]


@pytest.fixture
async def objects(stack: Stack) -> AsyncIterator[ObjectStore]:
    async with ObjectStore(
        stack.s3_endpoint_url, "us-east-1", stack.s3_access_key_id, stack.s3_secret_access_key, stack.bucket
    ) as objects:
        yield objects


def body_of(run: dict[str, Any], content: bytes) -> bytes:
    return multipart(
        [json_part(f"post.{run['id']}", run), (f"attachment.{run['id']}.file", "text/plain", content)]
    )


async def send(client: httpx.AsyncClient, run: dict[str, Any], content: bytes) -> httpx.Response:
    return await client.post("/runs/multipart", content=body_of(run, content), headers=MULTIPART)


async def listed(database: Database, workspace: Workspace) -> list[str]:
    """Keys of the workspace's objects that are to be deleted, now or later."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT object_key FROM doomed_objects WHERE object_key LIKE %s",
            (f"attachments/{workspace.tenant_id}/%",),
        )
        return [row["object_key"] for row in await cursor.fetchall()]


async def exists(objects: ObjectStore, key: str) -> bool:
    try:
        return [chunk async for chunk in objects.read(key)] != []
    except ObjectMissingError:
        return False


async def test_an_object_whose_process_died_before_the_commit_is_swept(
    api: OwnApi, workspace: Workspace, database: Database, objects: ObjectStore
) -> None:
    assert (await api.client.post("/runs", json=root_run())).status_code == 202
    run = root_run()
    async with database.transaction() as connection:
        # The commit waits here for the project, the upload is done.
        await connection.execute(
            "SELECT 1 FROM projects WHERE tenant_id = %s FOR UPDATE", (workspace.tenant_id,)
        )
        sending = asyncio.create_task(send(api.client, run, b"orphan"))

        async def is_uploaded() -> bool:
            assert not sending.done(), sending.result().text
            keys = await listed(database, workspace)
            return bool(keys) and await exists(objects, keys[0])

        await eventually(is_uploaded)
        api.process.kill()
        with pytest.raises(httpx.TransportError):
            await sending
    (key,) = await listed(database, workspace)
    assert (await workspace.client.get(f"/runs/{run['id']}")).status_code == 404
    sweep = TraceRetentionActivities(database, objects, Settings())
    await sweep.work(TraceRetentionBatch(TraceRetention.OBJECTS))
    assert await exists(objects, key), "what may still be on its way stays"
    async with database.connection() as connection:
        await connection.execute("UPDATE doomed_objects SET due_at = now() WHERE object_key = %s", (key,))

    async def is_swept() -> bool:
        await sweep.work(TraceRetentionBatch(TraceRetention.OBJECTS))
        return not await exists(objects, key)

    await eventually(is_swept)
    assert await listed(database, workspace) == []


async def test_objects_of_refused_and_repeated_bodies_go_and_what_a_row_refers_to_stays(
    stack: Stack, workspace: Workspace, database: Database, objects: ObjectStore, query: Query
) -> None:
    refused = root_run(session_id=str(uuid4()))
    assert (await send(workspace.client, refused, b"refused")).status_code == 404
    run = root_run()
    for content in (b"first", b"again"):
        assert (await send(workspace.client, run, content)).status_code == 202
    await asyncio.to_thread(upload_examples, workspace)
    files = S3FileSystem(
        key=stack.s3_access_key_id,
        secret=stack.s3_secret_access_key,
        endpoint_url=stack.s3_endpoint_url,
        use_listings_cache=False,
    )
    folder = f"{stack.bucket}/attachments/{workspace.tenant_id}"
    sweep = TraceRetentionActivities(database, objects, Settings())

    async def only_referred_ones_are_left() -> bool:
        await sweep.work(TraceRetentionBatch(TraceRetention.OBJECTS))
        return len(await asyncio.to_thread(files.find, folder)) == 2

    await eventually(only_referred_ones_are_left)
    assert await listed(database, workspace) == []
    link = (await query(id=[run["id"]]))[0]["s3_urls"]["attachment.file"]["presigned_url"]
    assert (await workspace.client.get(link)).content == b"again"


def upload_examples(workspace: Workspace) -> None:
    """One that is stored, and one whose dataset does not exist."""
    sdk = Client(api_url=workspace.api_url, api_key=workspace.api_key)
    example = {"inputs": {"n": 1}, "attachments": {"file": ("text/plain", b"example")}}
    dataset = sdk.create_dataset(f"uploads {uuid4().hex[:8]}")
    sdk.create_examples(dataset_id=dataset.id, examples=[example])
    with pytest.raises(LangSmithNotFoundError):
        sdk.create_examples(dataset_id=uuid4(), examples=[example])


async def test_nobody_claims_what_the_sweep_may_be_deleting(database: Database) -> None:
    late, early = (f"attachments/test/{uuid4()}" for _ in range(2))
    async with database.connection() as connection:
        await announce_uploads(connection, [late, early])
        await connection.execute(
            "UPDATE doomed_objects SET due_at = now() + interval '1 minute' WHERE object_key = %s", (late,)
        )
        assert not {late, early} & set(await doomed_objects(connection, 10_000))
    with pytest.raises(UploadExpiredError):
        async with database.transaction() as connection:
            await claim_uploads(connection, [late, early])
    async with database.transaction() as connection:
        await claim_uploads(connection, [early])
    with pytest.raises(UploadExpiredError):
        async with database.transaction() as connection:
            await claim_uploads(connection, [early])
