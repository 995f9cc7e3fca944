"""The script that people write today: pages of 100 through the SDK into Parquet."""

import json
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from langsmith import Client


def page_loop(api_url: str, api_key: str, project_id: str, start: datetime, rows: int) -> float:
    """Rows per second for the first `rows` runs of a project."""
    client = Client(api_url=f"{api_url}/api/v1", api_key=api_key)
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    for run in client.list_runs(project_id=project_id, start_time=start, limit=rows):
        fields = run.dict()
        found.append(
            {
                "id": str(run.id),
                "name": run.name,
                "start_time": run.start_time,
                "end_time": run.end_time,
                "inputs": json.dumps(fields["inputs"]),
                "outputs": json.dumps(fields["outputs"]),
                "extra": json.dumps(fields["extra"], default=str),
                "total_tokens": run.total_tokens,
            }
        )
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.Table.from_pylist(found), Path(folder) / "runs.parquet", compression="zstd")
    assert len(found) == rows, len(found)
    return rows / (time.perf_counter() - began)
