"""The command: all steps, one report, one exit code."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson
from rich.console import Console

from settings import Settings
from stack.buckets import BucketAccess
from stack.demo.conversing import converse
from stack.demo.deploying import deploy
from stack.demo.exporting import export
from stack.demo.steps import DemoError, Steps
from stack.home import API_KEY_FILE

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "chat_agent"
_TIMEOUT_SECONDS = 60.0


def run_demo(settings: Settings, name: str, folder: Path, as_json: bool) -> bool:
    """Run all steps against the stack of these settings; returns whether every one held."""
    steps = Steps(Console(stderr=as_json, quiet=as_json and not sys.stderr.isatty()))
    problem: str | None = None
    try:
        asyncio.run(_all_steps(steps, settings, name, folder))
    except DemoError as error:
        problem = str(error)
    except (httpx.HTTPError, OSError) as error:
        problem = f"{type(error).__name__}: {error}. Does `slipway up` run?"
    if as_json:
        report = {"ok": problem is None, "error": problem, **steps.results, "seconds": steps.seconds}
        sys.stdout.write(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode() + "\n")
    elif problem:
        Console(stderr=True).print(f"[red]Failed:[/red] {problem}", highlight=False)
    return problem is None


async def _all_steps(steps: Steps, settings: Settings, name: str, folder: Path) -> None:
    key = _api_key(settings)
    access = BucketAccess(
        settings.s3_endpoint,
        settings.s3_region,
        settings.s3_access_key_id,
        settings.s3_secret_access_key.get_secret_value() if settings.s3_secret_access_key else None,
    )
    async with httpx.AsyncClient(
        base_url=settings.api_url, headers={"X-Api-Key": key}, timeout=_TIMEOUT_SECONDS, trust_env=False
    ) as api:
        deployment = await deploy(steps, api, name, folder)
        since = datetime.now(UTC)
        await converse(steps, deployment["source_config"]["custom_url"], key, deployment["tenant_id"])
        await export(steps, api, deployment, settings.demo_bucket, access, since)


def _api_key(settings: Settings) -> str:
    path = settings.home / API_KEY_FILE
    if not path.exists():
        raise DemoError(f"{path} does not exist: start `slipway up` with this SLIPWAY_HOME first.")
    return path.read_text().strip()
