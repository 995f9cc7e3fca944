"""All benchmarks, one after another, on a stack of their own: `make bench`.

    python -m bench [--only runs streams …] [--rows 1000000]

Starts `slipway up` on free ports with its data in a temporary folder, deploys `bench/project` to it, runs each command
below as a reader of docs/PERFORMANCE.md would, and ends the stack. Takes about 20 minutes; what else runs on the
machine shows in the figures, so the load average is printed before each.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time

from bench.peers import slipway
from settings import Settings
from tests.stacks import REPOSITORY, Stack, running_stack

NAMES = ("runs", "streams", "rollouts", "ingest", "queries", "exports", "peers")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rows", type=int, default=1_000_000, help="Of traces, and of exports.")
    options = parser.parse_args()
    with running_stack() as stack:
        environment = {**os.environ, **stack.environment}
        settings = Settings(home=stack.home, api_port=int(stack.environment["SLIPWAY_API_PORT"]))
        deployment = asyncio.run(slipway(settings)).url
        for name in options.only:
            arguments = _arguments(name, stack, deployment, options.rows)
            print(f"\n## {name}, load average {os.getloadavg()[0]:.1f}\n", flush=True)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", *arguments], env=environment, cwd=REPOSITORY, check=True)
            print(f"({time.perf_counter() - began:.0f} s)", flush=True)


def _arguments(name: str, stack: Stack, deployment: str, rows: int) -> list[str]:
    """The module to run, and what it is given."""
    of_api = ["--url", stack.api_url, "--key", stack.api_key]
    of_deployment = ["--url", deployment, "--api-key", stack.api_key]
    servers = [str(stack.pid(name)) for name in ("api", "postgres")]
    return {
        "runs": ["bench.runs", *of_deployment],
        "streams": ["bench.streams", *of_deployment, "--api-pid", servers[0]],
        "rollouts": ["bench.rollouts"],
        "ingest": ["bench.ingest", *of_api, "--runs", str(rows), "--watch", *servers],
        "queries": ["bench.trace_query", *of_api],
        "exports": ["bench.exports", "--rows", str(rows)],
        "peers": ["bench.peers"],
    }[name]


if __name__ == "__main__":
    main()
