"""Bodies of the store's endpoints (contract §3.7)."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from api.agent_server.parameters import Filter, Limit, Offset
from storage.store import OPERATORS

# With the deployment's id these still fit into an index entry of PostgreSQL.
MAX_NAMESPACE_BYTES = 1_024
MAX_KEY_BYTES = 1_024
_MAX_LABELS = 64
_MAX_TTL_MINUTES = 60 * 24 * 3650


def check_labels(labels: list[str]) -> list[str]:
    """Labels that can be joined by dots, and are not too long together."""
    for label in labels:
        if not label:
            raise PydanticCustomError("label", "namespace labels cannot be empty")
        if "." in label:
            raise PydanticCustomError(
                "label",
                "invalid namespace label '{label}': labels cannot contain periods ('.')",
                {"label": label},
            )
        if "\0" in label:
            raise PydanticCustomError("label", "namespace labels cannot contain NUL characters")
    if len(".".join(labels).encode()) > MAX_NAMESPACE_BYTES:
        raise PydanticCustomError("label", f"the namespace is longer than {MAX_NAMESPACE_BYTES} bytes")
    return labels


def check_key(key: str) -> str:
    if "\0" in key:
        raise PydanticCustomError("key", "the key holds a NUL character")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise PydanticCustomError("key", f"the key is longer than {MAX_KEY_BYTES} bytes")
    return key


def _check_filter(given: dict[str, Any]) -> dict[str, Any]:
    for key, wanted in given.items():
        names = list(wanted) if isinstance(wanted, dict) else []
        if not any(name.startswith("$") for name in names):
            continue
        for name in names:
            if name not in OPERATORS:
                raise PydanticCustomError(
                    "operator",
                    "filter '{key}': unknown operator '{name}'; known are " + ", ".join(OPERATORS),
                    {"key": key, "name": name},
                )
            if name not in ("$eq", "$ne") and not isinstance(wanted[name], (int, float, str)):
                raise PydanticCustomError(
                    "operator", "filter '{key}': {name} compares numbers or texts", {"key": key, "name": name}
                )
    return given


def _check_index(index: Any) -> Any:
    if index is True:
        raise PydanticCustomError("index", "index must be false, or a list of paths, or null")
    return index


Labels = Annotated[list[str], Field(max_length=_MAX_LABELS), AfterValidator(check_labels)]
Key = Annotated[str, Field(min_length=1), AfterValidator(check_key)]
Path = Annotated[str, Field(min_length=1, max_length=128)]
StoreFilter = Annotated[Filter, AfterValidator(_check_filter)]


class ItemPut(BaseModel):
    namespace: Labels
    key: Key
    value: dict[str, Any]
    index: Annotated[
        Literal[False] | Annotated[list[Path], Field(max_length=32)] | None, AfterValidator(_check_index)
    ] = Field(default=None, description="Paths to embed; false for none, null for the store's own fields.")
    ttl: float | None = Field(default=None, gt=0, le=_MAX_TTL_MINUTES, description="Minutes.")


class ItemDelete(BaseModel):
    namespace: Labels
    key: Key


class Item(BaseModel):
    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class FoundItem(Item):
    score: float | None = None


class ItemSearch(BaseModel):
    namespace_prefix: Labels = []
    filter: StoreFilter | None = None
    query: str | None = Field(
        default=None,
        max_length=65_536,
        description="Orders by similarity where langgraph.json configures store.index; without it, has no effect.",
    )
    limit: Limit = 10
    offset: Offset = 0
    refresh_ttl: bool | None = None


class FoundItems(BaseModel):
    items: list[FoundItem]


class NamespaceList(BaseModel):
    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: int | None = Field(default=None, ge=1, le=_MAX_LABELS)
    limit: Limit = 100
    offset: Offset = 0


class Namespaces(BaseModel):
    namespaces: list[list[str]]
