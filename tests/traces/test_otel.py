"""OpenTelemetry's own exporter sends spans; they read back as one tree of runs."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.conftest import Workspace

Query = Callable[..., Any]


def trace_something(workspace: Workspace) -> None:
    """Each span is its own request, and the root's the last one."""
    provider = TracerProvider()
    exporter = OTLPSpanExporter(
        endpoint=f"{workspace.api_url}/otel/v1/traces",
        headers={"x-api-key": workspace.api_key, "Langsmith-Project": "otel"},
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("agent", attributes={"langsmith.metadata.customer": "acme"}):
        with tracer.start_as_current_span("plan", attributes={"langsmith.span.tags": "a, b"}):
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.prompt": '[{"role": "user", "content": "hi"}]',
                "gen_ai.completion": "hello",
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 5,
            }
            with tracer.start_as_current_span("chat", attributes=attributes):
                pass
        try:
            with tracer.start_as_current_span("tool", attributes={"gen_ai.operation.name": "execute_tool"}):
                raise ValueError("no such page")
        except ValueError:
            pass
    provider.shutdown()


async def test_spans_of_the_otlp_exporter_become_one_tree(workspace: Workspace, query: Query) -> None:
    await asyncio.to_thread(trace_something, workspace)
    runs = {run["name"]: run for run in await query()}
    root, plan, chat, tool = (runs[name] for name in ("agent", "plan", "chat", "tool"))
    assert chat["parent_run_ids"] == [root["id"], plan["id"]]
    assert chat["dotted_order"].startswith(plan["dotted_order"] + ".")
    assert plan["dotted_order"].startswith(root["dotted_order"] + ".")
    assert (root["total_tokens"], plan["total_tokens"], chat["total_tokens"]) == (15, 15, 15)
    assert root["total_cost"] == "0.0000045"
    assert chat["run_type"] == "llm"
    assert chat["inputs"] == {"messages": [{"role": "user", "content": "hi"}]}
    assert chat["outputs"] == {"output": "hello"}
    assert plan["tags"] == ["a", "b"]
    assert tool["run_type"] == "tool"
    assert tool["status"] == "error"
    assert "no such page" in tool["error"]
    assert root["extra"]["metadata"]["customer"] == "acme"
    assert len({run["trace_id"] for run in runs.values()}) == 1


async def test_json_spans_sent_twice_are_one_run(workspace: Workspace, query: Query) -> None:
    began = time.time_ns()
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "json",
        "kind": 1,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 10**9),
        "attributes": [{"key": "input.value", "value": {"stringValue": '{"q": 1}'}}],
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    for _ in range(2):
        answer = await workspace.client.post("/api/v1/otel/v1/traces", json=body)
        assert answer.status_code == 200, answer.text
    (run,) = await query()
    assert run["inputs"] == {"q": 1}
    assert run["status"] == "success"


async def test_what_is_no_otlp_is_refused(workspace: Workspace, query: Query) -> None:
    protobuf = {"Content-Type": "application/x-protobuf"}
    json_type = {"Content-Type": "application/json"}
    for body, headers in (
        (b"\xff\xff\xff", protobuf),
        (b"{", json_type),
        (b'{"resourceSpans": 5}', json_type),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00"}]}]}]}', json_type),
        (b'{"a":' * 500 + b"1" + b"}" * 500, json_type),
        (b"", {"Content-Type": "text/plain"}),
    ):
        answer = await workspace.client.post("/otel/v1/traces", content=body, headers=headers)
        assert 400 <= answer.status_code < 500, (body[:40], answer.text)
    assert await query() == []
