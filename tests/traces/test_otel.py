"""OpenTelemetry's own exporter sends spans; they read back as one tree of runs."""

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from google.protobuf.json_format import ParseDict
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from storage.database import Database
from tests.conftest import Workspace
from tests.traces.wire import new_deployment

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


PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def span_of(
    name: str, trace_id: str, span_id: str, parent_id: str = "", **attributes: str | int
) -> dict[str, Any]:
    """A finished span, as OTLP writes it in JSON."""
    now = time.time_ns()
    values = [
        {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
        for key, value in attributes.items()
    ]
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": name,
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 10**6),
        "attributes": values,
    }


def request_of(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


async def test_what_is_no_otlp_is_refused_with_a_status_in_the_requests_own_encoding(
    workspace: Workspace, query: Query
) -> None:
    for body, headers, expected in (
        (b"\xff\xff\xff", PROTOBUF, 400),
        (b"{", JSON, 400),
        (b'{"resourceSpans": 5}', JSON, 400),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00"}]}]}]}', JSON, 400),
        (b'{"a":' * 500 + b"1" + b"}" * 500, JSON, 400),
        (b"", {"Content-Type": "text/plain"}, 415),
        (b"", {**PROTOBUF, "Content-Encoding": "br"}, 415),
        (b"", {**JSON, "X-Api-Key": "slw_wrong"}, 401),
        (b"", {**PROTOBUF, "X-Api-Key": "slw_wrong"}, 401),
        # Empty spans, of which each would take a hundred times as much memory.
        (bytes([10, 133, 128, 128, 1, 18, 128, 128, 128, 1]) + b"\x12\x00" * (1 << 20), PROTOBUF, 413),
    ):
        answer = await workspace.client.post("/otel/v1/traces", content=body, headers=headers)
        assert answer.status_code == expected, (body[:40], answer.text)
        if headers["Content-Type"] == JSON["Content-Type"]:
            assert answer.headers["Content-Type"] == "application/json"
            status = ParseDict(answer.json(), Status())
        else:
            assert answer.headers["Content-Type"] == "application/x-protobuf"
            status = Status.FromString(answer.content)
        assert status.code != 0
        assert status.message
    assert await query() == []


async def test_spans_that_cannot_be_runs_are_counted_and_the_others_are_stored(
    workspace: Workspace, query: Query
) -> None:
    good = span_of("good", "0b8efff798038103d269b633813fc60c", "0ee19b7ec3c1b174")
    early = {**span_of("early", good["traceId"], "0ee19b7ec3c1b175"), "startTimeUnixNano": "0"}
    idless = {**span_of("idless", good["traceId"], "0ee19b7ec3c1b176"), "spanId": ""}
    body = request_of(early, good, idless)
    answer = await workspace.client.post("/otel/v1/traces", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "2"
    assert "nanoseconds" in answer.json()["partialSuccess"]["errorMessage"]
    assert [run["name"] for run in await query()] == ["good"]
    encoded = ParseDict(request_of(), ExportTraceServiceRequest())
    encoded.resource_spans[0].scope_spans[0].spans.add(name="no ids")
    encoded.resource_spans[0].scope_spans[0].spans.add(
        name="more", trace_id=b"1" * 16, span_id=b"2" * 8, start_time_unix_nano=time.time_ns()
    )
    answer = await workspace.client.post(
        "/otel/v1/traces", content=encoded.SerializeToString(), headers=PROTOBUF
    )
    assert answer.status_code == 200, answer.text
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
    assert {run["name"] for run in await query()} == {"good", "more"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_a_trace_may_span_the_projects_of_several_keys(
    workspace: Workspace, database: Database, query: Query, order: tuple[int, ...]
) -> None:
    """A client's span calls a deployment, whose key may write only to its own project."""
    name = f"agent-{uuid4().hex[:12]}"
    _, key = await new_deployment(database, workspace.tenant_id, name)
    usage: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.usage.total_tokens": 7}
    trace_id, ids = uuid4().hex, [uuid4().hex[:16] for _ in range(3)]
    requests = [
        (span_of("client", trace_id, ids[0]), workspace.api_key),
        (span_of("agent", trace_id, ids[1], ids[0]), key),
        (span_of("model", trace_id, ids[2], ids[1], **usage), key),
    ]
    for place in order:
        span, sender = requests[place]
        answer = await workspace.client.post(
            "/otel/v1/traces", json=request_of(span), headers={"X-Api-Key": sender}
        )
        assert answer.status_code == 200, (place, answer.text)
    runs = {run["name"]: run for run in await query(trace=str(UUID(trace_id)))}
    client, agent, model = (runs[name] for name in ("client", "agent", "model"))
    assert client["session_id"] != agent["session_id"] == model["session_id"]
    assert model["parent_run_ids"] == [client["id"], agent["id"]]
    assert model["dotted_order"].startswith(agent["dotted_order"] + ".")
    assert agent["dotted_order"].startswith(client["dotted_order"] + ".")
    assert [run["total_tokens"] for run in (client, agent, model)] == [7, 7, 7]
    # What the key says about the client's own span is refused, and changes nothing.
    renamed = {**requests[0][0], "name": "renamed"}
    answer = await workspace.client.post(
        "/otel/v1/traces", json=request_of(renamed), headers={"X-Api-Key": key}
    )
    assert answer.status_code == 403
    assert {run["name"] for run in await query(trace=str(UUID(trace_id)))} == {"client", "agent", "model"}
