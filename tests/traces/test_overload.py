"""What passes is answered 503 with Retry-After, stores nothing, and is delivered once by who tries again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
from langsmith import Client

from storage.database import Connection, Database
from tests.conftest import Workspace
from tests.runtime.harness import eventually
from tests.traces.own_api import HELD_BYTES, OwnApi
from tests.traces.wire import MULTIPART, json_part, multipart, root_run


async def stored(database: Database, workspace: Workspace) -> dict[UUID, int]:
    """How often each run of the workspace is stored; a key without a row counts as 0."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT k.id, count(r.id) AS times FROM trace_run_keys k LEFT JOIN trace_runs r"
            " ON r.tenant_id = k.tenant_id AND r.id = k.id WHERE k.tenant_id = %s GROUP BY k.id",
            (workspace.tenant_id,),
        )
        return {row["id"]: row["times"] for row in await cursor.fetchall()}


async def waits_for(connection: Connection) -> bool:
    """Whether a transaction waits for what this one has locked."""
    cursor = await connection.execute(
        "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        " AND transactionid = pg_current_xact_id()::xid"
    )
    row: Any = await cursor.fetchone()
    return bool(row["n"])


def assert_passing(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    assert isinstance(answer.json()["error"], str)


async def test_an_outage_of_the_database_loses_nothing_and_doubles_nothing(
    api: OwnApi, workspace: Workspace, database: Database
) -> None:
    proxy, log = api.process.proxy, api.process.log
    sent = {uuid4() for _ in range(30)}

    def trace() -> None:
        client = Client(api_url=api.process.url, api_key=workspace.api_key)
        for run_id in sent:
            client.create_run(
                "outage",
                {"question": "?"},
                "chain",
                id=run_id,
                trace_id=run_id,
                dotted_order=f"20260301T100000000000Z{run_id}",
                project_name="outage",
            )
        for run_id in sent:
            client.update_run(
                run_id,
                outputs={"answer": 1},
                trace_id=run_id,
                dotted_order=f"20260301T100000000000Z{run_id}",
                end_time=None,
            )
        client.flush()

    assert (await api.client.post("/runs", json=root_run())).status_code == 202
    before = await stored(database, workspace)
    proxy.go_away()
    assert_passing(await api.client.post("/runs/batch", json={"post": [root_run()]}))
    assert await stored(database, workspace) == before
    tracing = asyncio.create_task(asyncio.to_thread(trace))
    refused = log.read_text().count("ingest_without_database")

    async def sdk_was_refused() -> bool:
        return log.read_text().count("ingest_without_database") > refused

    await eventually(sdk_was_refused, 60)
    proxy.lose_answers_to_commits(2)
    proxy.come_back()
    await tracing

    async def delivered() -> bool:
        return await stored(database, workspace) == before | dict.fromkeys(sent, 1)

    await eventually(delivered, 60)
    assert proxy.lost_commits == 2
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*) AS n FROM trace_runs WHERE tenant_id = %s AND outputs = '{\"answer\":1}'",
            (workspace.tenant_id,),
        )
        row: Any = await cursor.fetchone()
    assert row["n"] == len(sent)


async def test_beyond_what_a_process_holds_or_works_on_the_answer_is_503(
    api: OwnApi, workspace: Workspace, database: Database
) -> None:
    first = root_run()
    assert (await api.client.post("/runs", json=first)).status_code == 202
    async with database.transaction() as connection:
        # Whoever writes into the project now waits, with the only turn there is.
        await connection.execute(
            "SELECT 1 FROM projects WHERE tenant_id = %s FOR UPDATE", (workspace.tenant_id,)
        )
        large = root_run(inputs={"large": "x" * (HELD_BYTES // 2)})
        working = asyncio.create_task(api.client.post("/runs", json=large))

        await eventually(lambda: waits_for(connection))
        # No memory: at once, announced or streamed, and before a byte of it is kept.
        body = multipart([json_part(f"post.{large['id']}", {**large, "name": "second"})])

        async def streamed() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 65_536):
                yield body[start : start + 65_536]

        assert_passing(await api.client.post("/runs/multipart", content=body * 2, headers=MULTIPART))
        assert_passing(await api.client.post("/runs/multipart", content=streamed(), headers=MULTIPART))
        # Memory, but no turn within a few seconds.
        assert_passing(await api.client.post("/runs", json=root_run()))
    assert (await working).status_code == 202
    assert (await api.client.post("/runs/multipart", content=body, headers=MULTIPART)).status_code == 202
    assert await stored(database, workspace) == {UUID(first["id"]): 1, UUID(large["id"]): 1}


async def test_runs_sent_one_by_one_at_once_are_stored_together_and_fail_alone(
    api: OwnApi, workspace: Workspace, database: Database
) -> None:
    first = root_run()
    assert (await api.client.post("/runs", json=first)).status_code == 202
    runs = [root_run(session_name=f"single {number}") for number in range(10)]
    unknown, nameless = root_run(session_id=str(uuid4())), root_run(session_name="\x00")

    async def send_while_one_waits(*requests: tuple[str, str, dict[str, Any]]) -> list[int]:
        """Statuses of what is sent while a transaction of the same key is under way."""
        async with database.transaction() as connection:
            await connection.execute(
                "SELECT 1 FROM projects WHERE tenant_id = %s AND name = 'wire' FOR UPDATE",
                (workspace.tenant_id,),
            )
            patch = api.client.patch(f"/runs/{first['id']}", json={"session_name": "wire", "tags": ["x"]})
            waiting = asyncio.create_task(patch)
            await eventually(lambda: waits_for(connection))
            sending = [
                asyncio.create_task(api.client.request(method, path, json=body))
                for method, path, body in requests
            ]
            # Once another request is answered, these have long been read.
            assert (await api.client.get("/info")).status_code == 200
        assert (await waiting).status_code == 202
        return [(await one).status_code for one in sending]

    assert await send_while_one_waits(*(("POST", "/runs", run) for run in runs)) == [202] * 10
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(DISTINCT received_at) AS commits FROM trace_runs WHERE tenant_id = %s AND id = ANY(%s)",
            (workspace.tenant_id, [run["id"] for run in runs]),
        )
        row: Any = await cursor.fetchone()
    assert row["commits"] < len(runs)
    patches = [("PATCH", f"/runs/{run['id']}", {"outputs": {"late": True}}) for run in runs]
    wrong = [("POST", "/runs", unknown), ("POST", "/runs", nameless)]
    assert await send_while_one_waits(*patches, *wrong) == [202] * 10 + [404, 422]
    assert await stored(database, workspace) == {UUID(run["id"]): 1 for run in (first, *runs)}
    found = (await api.client.post("/runs/query", json={"id": [run["id"] for run in runs]})).json()["runs"]
    assert [run["outputs"] for run in found] == [{"late": True}] * 10
