"""The fields that filters may name, their types, and the operators of each type (trace contract §4.2)."""

from dataclasses import dataclass
from enum import Enum, auto

from storage.filters.tree import Operator as Op


class Kind(Enum):
    UUID = auto()
    TEXT = auto()
    TIME = auto()
    SECONDS = auto()  # a number, or text like "1.5s"
    FIRST_TOKEN = auto()  # a time, or seconds since the run's start
    NUMBER = auto()
    BOOLEAN = auto()
    TAGS = auto()
    METADATA = auto()
    THREAD = auto()
    DOCUMENT = auto()
    PAIR_KEY = auto()
    PAIR_VALUE = auto()
    FEEDBACK_KEY = auto()
    FEEDBACK_SCORE = auto()
    FEEDBACK_TEXT = auto()


_EQUALITY = frozenset({Op.EQ, Op.NEQ, Op.IN})
_ORDER = frozenset({Op.EQ, Op.NEQ, Op.GT, Op.GTE, Op.LT, Op.LTE})
_WORDS = frozenset({Op.LIKE, Op.SEARCH})

OPERATORS: dict[Kind, frozenset[Op]] = {
    Kind.UUID: _EQUALITY,
    Kind.TEXT: _EQUALITY | _WORDS,
    Kind.TIME: _ORDER,
    Kind.SECONDS: _ORDER,
    Kind.FIRST_TOKEN: _ORDER,
    Kind.NUMBER: _ORDER | {Op.IN},
    Kind.BOOLEAN: frozenset({Op.EQ, Op.NEQ}),
    Kind.TAGS: frozenset({Op.HAS, Op.EQ, Op.NEQ, Op.IN, Op.SEARCH}),
    Kind.METADATA: frozenset({Op.HAS, Op.EXISTS, Op.SEARCH}),
    Kind.THREAD: _EQUALITY,
    Kind.DOCUMENT: _WORDS,
    Kind.PAIR_KEY: _EQUALITY | _WORDS | {Op.HAS, Op.EXISTS},
    Kind.PAIR_VALUE: _EQUALITY | _WORDS,
    Kind.FEEDBACK_KEY: _EQUALITY | _WORDS | {Op.HAS, Op.EXISTS},
    Kind.FEEDBACK_SCORE: _ORDER | {Op.IN},
    Kind.FEEDBACK_TEXT: _EQUALITY | _WORDS,
}


@dataclass(frozen=True)
class Field:
    """`column` of `trace_runs`; for pairs the document they come from; nullable fields compare with null."""

    kind: Kind
    column: str = ""
    nullable: bool = False


FIELDS: dict[str, Field] = {
    "id": Field(Kind.UUID, "id"),
    "trace_id": Field(Kind.UUID, "trace_id"),
    "session_id": Field(Kind.UUID, "session_id"),
    "parent_run_id": Field(Kind.UUID, "parent_run_id", True),
    "reference_example_id": Field(Kind.UUID, "reference_example_id", True),
    "name": Field(Kind.TEXT, "name"),
    "run_type": Field(Kind.TEXT, "run_type"),
    "status": Field(Kind.TEXT, "status"),
    "trace_tier": Field(Kind.TEXT, "trace_tier"),
    "dotted_order": Field(Kind.TEXT, "dotted_order"),
    "error": Field(Kind.TEXT, "error", True),
    "start_time": Field(Kind.TIME, "start_time"),
    "end_time": Field(Kind.TIME, "end_time", True),
    "first_token_time": Field(Kind.FIRST_TOKEN, "first_token_time", True),
    "latency": Field(Kind.SECONDS, nullable=True),
    "total_tokens": Field(Kind.NUMBER, "total_tokens"),
    "prompt_tokens": Field(Kind.NUMBER, "prompt_tokens"),
    "completion_tokens": Field(Kind.NUMBER, "completion_tokens"),
    "total_cost": Field(Kind.NUMBER, "total_cost", True),
    "prompt_cost": Field(Kind.NUMBER, "prompt_cost", True),
    "completion_cost": Field(Kind.NUMBER, "completion_cost", True),
    "execution_order": Field(Kind.NUMBER, "1"),
    "is_root": Field(Kind.BOOLEAN, "is_root"),
    "tags": Field(Kind.TAGS, "tags"),
    "metadata": Field(Kind.METADATA, "metadata"),
    "thread_id": Field(Kind.THREAD),
    "inputs": Field(Kind.DOCUMENT, "inputs"),
    "outputs": Field(Kind.DOCUMENT, "outputs"),
    "metadata_key": Field(Kind.PAIR_KEY, "metadata"),
    "metadata_value": Field(Kind.PAIR_VALUE, "metadata"),
    "input_key": Field(Kind.PAIR_KEY, "inputs"),
    "input_value": Field(Kind.PAIR_VALUE, "inputs"),
    "output_key": Field(Kind.PAIR_KEY, "outputs"),
    "output_value": Field(Kind.PAIR_VALUE, "outputs"),
    "feedback_key": Field(Kind.FEEDBACK_KEY),
    "feedback_score": Field(Kind.FEEDBACK_SCORE),
    "feedback_value": Field(Kind.FEEDBACK_TEXT, "value"),
    "feedback_comment": Field(Kind.FEEDBACK_TEXT, "comment"),
}
# Metadata keys under which clients keep a conversation's id.
THREAD_KEYS = ("session_id", "thread_id", "conversation_id")
