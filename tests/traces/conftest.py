"""What the tests of the trace store share: an SDK client of the test's workspace, and waiting for what it sent."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langsmith import Client

from tests.conftest import Workspace

Body = dict[str, Any]


@pytest.fixture
def sdk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The unmodified Python SDK, told an endpoint and a key and nothing else."""
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", workspace.api_url)
    monkeypatch.setenv("LANGSMITH_API_KEY", workspace.api_key)
    client = Client(api_url=workspace.api_url, api_key=workspace.api_key)
    yield client
    client.flush()


@pytest.fixture
def query(workspace: Workspace) -> Callable[..., Any]:
    """`await query(**body)`: the runs that `/runs/query` answers with, asserting that it does."""

    async def ask(**body: Any) -> list[Body]:
        answer = await workspace.client.post("/api/v1/runs/query", json=body)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["runs"])

    return ask
