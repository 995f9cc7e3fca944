"""What spans mean as runs: GenAI conventions, LangSmith's own, OpenInference, Traceloop (trace contract §5.9)."""

from typing import Any
from uuid import UUID, uuid5

import orjson

from api.traces.otel_spans import Span
from api.traces.run_reader import read_run
from storage.traces.changes import RunChange, RunType

# Part of the stored format: the same span sent again is the same run.
_NAMESPACE = UUID("5a3d6d0c-53e8-4d0e-9f0a-6f74656c0001")
_RUN_TYPES = frozenset(RunType)
_OPERATIONS = {
    **dict.fromkeys(("chat", "completion", "text_completion", "generate_content", "message"), "llm"),
    **dict.fromkeys(("embedding", "embeddings"), "embedding"),
    "execute_tool": "tool",
    "retrieval": "retriever",
}
_KINDS = {
    **{name: name for name in ("llm", "tool", "retriever", "embedding", "chain", "prompt", "parser")},
    **dict.fromkeys(("agent", "workflow", "task", "reranker", "guardrail", "evaluator"), "chain"),
}
_INPUTS = (
    "gen_ai.prompt",
    "gen_ai.input.messages",
    "input.value",
    "traceloop.entity.input",
    "request_data",
    "prompt",
)
_OUTPUTS = (
    *(
        "gen_ai.completion",
        "gen_ai.output.messages",
        "output.value",
        "traceloop.entity.output",
        "response_data",
    ),
    "final_result",
)
_INPUT_EVENTS = {
    "gen_ai.content.prompt",
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.tool.message",
}
_OUTPUT_EVENTS = {"gen_ai.content.completion", "gen_ai.choice", "gen_ai.assistant.message"}
_COUNTS = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
    ),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
    "input_cost": ("gen_ai.usage.input_cost",),
    "output_cost": ("gen_ai.usage.output_cost",),
    "total_cost": ("gen_ai.usage.total_cost", "gen_ai.usage.cost", "llm.cost.total"),
}
_DETAILS = {
    "input_token_details": "gen_ai.usage.input_token_details",
    "output_token_details": "gen_ai.usage.output_token_details",
}
_METADATA = "langsmith.metadata."
_REQUEST = "gen_ai.request."


def run_id_of(trace_id: str, span_id: str) -> UUID:
    """The run that a span is. SDKs that send runs as spans name a root's span after its trace."""
    trace = UUID(trace_id)
    return trace if trace_id.startswith(span_id) else uuid5(_NAMESPACE, trace_id + span_id)


def run_of_span(span: Span, project: str | None) -> RunChange:
    """A finished span as the create of a run.

    Raises:
        InvalidError: an id or a time among its attributes is malformed.
    """
    given = span.attributes
    run_id = (
        UUID(span_id)
        if (span_id := _uuid(given.get("langsmith.span.id")))
        else run_id_of(span.trace_id, span.span_id)
    )
    parent = _uuid(given.get("langsmith.span.parent_id"))
    if parent is None and span.parent_span_id:
        parent = str(run_id_of(span.trace_id, span.parent_span_id))
    main: dict[str, Any] = {
        "name": _text(given.get("langsmith.trace.name")) or span.name or "span",
        "run_type": _run_type(given),
        "trace_id": _uuid(given.get("langsmith.trace.id")) or str(UUID(span.trace_id)),
        "parent_run_id": parent,
        "dotted_order": _text(given.get("langsmith.span.dotted_order")),
        "session_id": _uuid(given.get("langsmith.trace.session_id")),
        "session_name": _text(given.get("langsmith.trace.session_name")) or project,
        "reference_example_id": _uuid(given.get("langsmith.reference_example_id")),
        "start_time": span.start_time.isoformat(),
        "end_time": span.end_time.isoformat() if span.end_time else None,
        "tags": _tags(given.get("langsmith.span.tags")),
        "inputs": _document(span, _INPUTS, "gen_ai.prompt.", "llm.input_messages.", _INPUT_EVENTS, "input"),
        "outputs": _document(
            span, _OUTPUTS, "gen_ai.completion.", "llm.output_messages.", _OUTPUT_EVENTS, "output"
        ),
        "extra": _extra(span),
        "error": _error(span),
    }
    return read_run(run_id, True, main)


def _run_type(given: dict[str, Any]) -> str:
    own = str(given.get("langsmith.span.kind", "")).lower()
    if own in _RUN_TYPES:
        return own
    operation = _OPERATIONS.get(str(given.get("gen_ai.operation.name", "")).lower())
    if operation:
        return operation
    for name in ("openinference.span.kind", "traceloop.span.kind"):
        kind = _KINDS.get(str(given.get(name, "")).lower())
        if kind:
            return kind
    return "llm" if "gen_ai.request.model" in given or "llm.model_name" in given else "chain"


def _document(
    span: Span, names: tuple[str, ...], indexed: str, openinference: str, events: set[str], key: str
) -> dict[str, Any] | None:
    """Inputs or outputs, wherever the instrumentation puts them."""
    for name in names:
        if name in span.attributes:
            value = _parsed(span.attributes[name])
            if isinstance(value, dict):
                return value
            return {"messages" if isinstance(value, list) else key: value}
    messages = _indexed(span.attributes, indexed) or _indexed(span.attributes, openinference)
    messages = messages or [
        {
            "role": event.name.split(".")[1],
            **{name: _parsed(value) for name, value in event.attributes.items()},
        }
        for event in span.events
        if event.name in events
    ]
    return {"messages": messages} if messages else None


def _indexed(given: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """`<prefix>0.role`, `<prefix>0.content`, …: one message per number."""
    messages: dict[int, dict[str, Any]] = {}
    for name, value in given.items():
        number, _, field = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix) and number.isdecimal() and len(number) < 6 and field:
            messages.setdefault(int(number), {})[field.removeprefix("message.")] = value
    return [messages[number] for number in sorted(messages)]


def _extra(span: Span) -> dict[str, Any]:
    given = span.attributes
    metadata = {
        name.removeprefix(_METADATA): _parsed(value)
        for name, value in given.items()
        if name.startswith(_METADATA)
    }
    for name, sources in (
        ("ls_model_name", ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")),
        ("ls_provider", ("gen_ai.provider.name", "gen_ai.system", "llm.provider")),
        ("thread_id", ("langsmith.thread_id", "gen_ai.conversation.id", "session.id")),
    ):
        value = next((given[source] for source in sources if source in given), None)
        if value is not None:
            metadata.setdefault(name, value)
    usage = {
        name: value
        for name, sources in _COUNTS.items()
        if (value := next((_number(given[source]) for source in sources if source in given), None))
        is not None
    }
    usage |= {name: _parsed(given[source]) for name, source in _DETAILS.items() if source in given}
    if usage:
        metadata.setdefault("usage_metadata", usage)
    parameters = {
        name.removeprefix(_REQUEST): value for name, value in given.items() if name.startswith(_REQUEST)
    }
    extra: dict[str, Any] = {"metadata": metadata, "otel": {"attributes": given, "resource": span.resource}}
    if parameters:
        extra["invocation_params"] = parameters
    return extra


def _error(span: Span) -> str | None:
    for event in span.events:
        if event.name == "exception":
            parts = (event.attributes.get(f"exception.{name}") for name in ("type", "message", "stacktrace"))
            return "\n".join(str(part) for part in parts if part) or "exception"
    return (span.status_message or "error") if span.is_error else None


def _tags(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    return [str(tag) for tag in value] if isinstance(value, list) else None


def _parsed(value: Any) -> Any:
    """JSON in a string attribute, or the value as it is."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and value != "None" else None


def _uuid(value: Any) -> str | None:
    try:
        return str(UUID(value))
    except (ValueError, TypeError, AttributeError):
        return None
