"""What a worker still does when it is told to stop."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.runtime.harness import eventually
from tests.streams.conftest import Served, read_run


class TraceServer:
    """Takes traces as LangSmith's API does; its first answer waits until `answering` is set."""

    def __init__(self) -> None:
        self.asked, self.answering = asyncio.Event(), asyncio.Event()
        self.begun: set[str] = set()
        self.ended: set[str] = set()
        self.app = Starlette(
            routes=[Route("/info", self._info), Route("/runs/batch", self._batch, methods=["POST"])]
        )

    async def _info(self, request: Request) -> JSONResponse:
        limits = {"use_multipart_endpoint": False, "size_limit": 100, "size_limit_bytes": 20_000_000}
        threads = {
            "scale_up_nthreads_limit": 1,
            "scale_up_qsize_trigger": 10_000,
            "scale_down_nempty_trigger": 4,
        }
        return JSONResponse({"version": "0", "batch_ingest_config": {**limits, **threads}})

    async def _batch(self, request: Request) -> JSONResponse:
        body: dict[str, list[dict[str, Any]]] = orjson.loads(await request.body())
        self.asked.set()
        await self.answering.wait()
        traces = [*(body.get("post") or ()), *(body.get("patch") or ())]
        self.begun |= {trace["id"] for trace in traces}
        self.ended |= {trace["id"] for trace in traces if trace.get("end_time")}
        return JSONResponse({}, 202)


async def test_a_worker_that_stops_sends_the_traces_that_it_has(own_streaming: Served) -> None:
    deployment, traces = own_streaming, TraceServer()
    async with _listening(traces) as address:
        worker = await deployment.serve(
            LANGSMITH_TRACING="true", LANGSMITH_ENDPOINT=address, LANGSMITH_API_KEY="key"
        )
        runs = []
        for _ in range(3):
            thread = await deployment.new_thread()
            frames = await read_run(deployment, thread, {"assistant_id": "steps", "input": {"done": []}})
            runs.append(frames[0]["data"]["run_id"])
            # What comes after the first request waits in the worker: it sends one at a time.
            await asyncio.wait_for(traces.asked.wait(), 20)
        assert not traces.ended
        worker.send_signal(signal.SIGTERM)
        traces.answering.set()
        assert await asyncio.to_thread(worker.wait, 20) == 0
    assert set(runs) <= traces.begun & traces.ended


@asynccontextmanager
async def _listening(traces: TraceServer) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(traces.app, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await eventually(started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
