"""One process of the platform, alone: the API, or a worker."""

import asyncio
import gc
import os
import signal
import sys
import traceback

import structlog
import uvicorn
import uvloop

from settings import Settings

log = structlog.get_logger()

_GRACEFUL_SECONDS = 5


def serve_api(settings: Settings) -> None:
    """Serve the API until SIGINT or SIGTERM; open requests get a few seconds to end."""
    from api.app import create_app

    config = uvicorn.Config(
        create_app(settings),
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
        server_header=False,
    )
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        sys.exit(1)


def serve_worker(role: str, settings: Settings) -> None:
    """Run a worker role until SIGINT or SIGTERM, then let its activities end. Does not return."""
    code = 0
    # Not the listener: it starts processes in ways that asyncio's own loop is made for.
    run = asyncio.run if role == "listener" else uvloop.run
    try:
        run(_until_signalled(role, settings))
    except Exception:
        traceback.print_exc()
        code = 1
    log.info("worker_ended", role=role, code=code)
    # The SDK's native threads may still hold Python objects while the interpreter ends, which aborts one in ten
    # short processes (temporalio/sdk-python#300): leave at once, with everything written.
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _until_signalled(role: str, settings: Settings) -> None:
    import worker

    task = asyncio.create_task(worker.run(role, settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
