"""Request bodies as the Python langsmith SDK sends them: multipart in one zstd frame, runs of about 2 KB."""

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from langsmith._internal._compressed_traces import CompressedTraces
from langsmith._internal._operations import (
    compress_multipart_parts_and_context,
    serialize_run_dict,
    serialized_run_operation_to_multipart_parts_and_context,
)

BOUNDARY = uuid.uuid4().hex
_WORDS = [
    f"{stem}{ending}" for stem in ("alpha", "river", "stone", "cloud", "ember") for ending in range(200)
]
CUSTOMERS = 1_000


def bodies(
    runs: int, runs_per_body: int, runs_per_trace: int, project: str, start: datetime, spread: timedelta
) -> Iterator[bytes]:
    """`runs` finished runs in traces of `runs_per_trace`, started evenly over `spread` from `start`."""
    chance = random.Random(7)
    pending: list[dict[str, Any]] = []
    step = spread / max(runs // runs_per_trace, 1)
    for trace in range(runs // runs_per_trace):
        pending += _trace(chance, start + trace * step, runs_per_trace, project)
        while len(pending) >= runs_per_body:
            yield encode(pending[:runs_per_body])
            del pending[:runs_per_body]
    if pending:
        yield encode(pending)


def encode(runs: list[dict[str, Any]]) -> bytes:
    """One request body of creates, by the SDK's own encoder."""
    frame = CompressedTraces()
    for run in runs:
        parts, _ = serialized_run_operation_to_multipart_parts_and_context(
            serialize_run_dict("post", dict(run))
        )
        compress_multipart_parts_and_context(parts, frame, BOUNDARY)
    frame.compressor_writer.write(f"--{BOUNDARY}--\r\n".encode())
    frame.compressor_writer.close()
    return frame.buffer.getvalue()


def _trace(chance: random.Random, start: datetime, size: int, project: str) -> list[dict[str, Any]]:
    root_id = _uuid7(chance, start)
    root_order = f"{start:%Y%m%dT%H%M%S%f}Z{root_id}"
    customer = f"customer-{chance.randrange(CUSTOMERS)}"
    runs = []
    for place in range(size):
        began = start + timedelta(milliseconds=20 * place)
        run_id = root_id if place == 0 else _uuid7(chance, began)
        order = root_order if place == 0 else f"{root_order}.{began:%Y%m%dT%H%M%S%f}Z{run_id}"
        is_model = place % 2 == 1
        outputs: dict[str, Any] = {"messages": [{"role": "assistant", "content": _text(chance, 600)}]}
        if is_model:
            outputs["usage_metadata"] = {"input_tokens": 120, "output_tokens": 40, "total_tokens": 160}
        run: dict[str, Any] = {
            "id": run_id,
            "trace_id": root_id,
            "dotted_order": order,
            "name": "agent" if place == 0 else "model" if is_model else "tool",
            "run_type": "chain" if place == 0 else "llm" if is_model else "tool",
            "session_name": project,
            "start_time": began.isoformat(),
            "end_time": (began + timedelta(milliseconds=15)).isoformat(),
            "inputs": {"messages": [{"role": "user", "content": _text(chance, 600)}]},
            "outputs": outputs,
            "events": [],
            "tags": ["bench"],
            "extra": {
                "metadata": {
                    "customer": customer,
                    "environment": chance.choice(["production", "staging"]),
                    "ls_model_name": "bench-model",
                    "revision_id": "3f1c2b7",
                    "thread_id": str(root_id),
                    "langgraph_step": place,
                },
                "runtime": {"sdk": "langsmith-py", "platform": "Linux-6.1", "python_version": "3.11.7"},
            },
        }
        if place:
            run["parent_run_id"] = root_id
        runs.append(run)
    return runs


def _text(chance: random.Random, length: int) -> str:
    words = chance.choices(_WORDS, k=length // 7)
    return " ".join(words)


def _uuid7(chance: random.Random, moment: datetime) -> uuid.UUID:
    value = int(moment.replace(tzinfo=UTC).timestamp() * 1000) << 80 | chance.getrandbits(80)
    value &= ~(0xF << 76) & ~(0x3 << 62)
    return uuid.UUID(int=value | 0x7 << 76 | 0x2 << 62)
