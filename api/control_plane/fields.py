"""Field types that several bodies and queries of the control plane share."""

from enum import StrEnum
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

T = TypeVar("T")


class Source(StrEnum):
    GITHUB = "github"
    EXTERNAL_DOCKER = "external_docker"
    INTERNAL_DOCKER = "internal_docker"
    INTERNAL_SOURCE = "internal_source"
    INTERNAL_TEMPLATE = "internal_template"


class RevisionSource(StrEnum):
    """What a single revision may be built from, whatever its deployment's source is."""

    GITHUB = "github"
    INTERNAL_DOCKER = "internal_docker"
    INTERNAL_SOURCE = "internal_source"


class DeploymentType(StrEnum):
    DEV_FREE = "dev_free"
    DEV = "dev"
    PROD = "prod"
    DEV_ZERO = "dev_zero"
    DEV_FREE_ZERO = "dev_free_zero"


class DeploymentTier(StrEnum):
    SERVERLESS_S = "SERVERLESS_S"
    SERVERLESS_M = "SERVERLESS_M"
    SERVERLESS_L = "SERVERLESS_L"
    DEDICATED_S = "DEDICATED_S"
    DEDICATED_M = "DEDICATED_M"
    DEDICATED_L = "DEDICATED_L"


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _without_nul_inside(value: T) -> T:
    """Free JSON as PostgreSQL can hold it: no NUL in any string, and not deeper than 50 levels."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > 50:
            raise ValueError("nested too deeply (limit: 50 levels)")
        if isinstance(item, str):
            _without_nul(item)
        elif isinstance(item, dict):
            stack += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            stack += [(part, depth + 1) for part in item]
    return value


Text = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_without_nul)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
FilterText = Annotated[
    str | None, AfterValidator(lambda value: value and _without_nul(value)), Query(max_length=2_000)
]
JsonObject = Annotated[dict[str, Any], AfterValidator(_without_nul_inside)]
Limit = Annotated[int, Query(ge=1, le=100)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]


class Body(BaseModel):
    """A request body. Unknown fields are ignored: newer clients send fields that this server does not know."""

    model_config = ConfigDict(extra="ignore")
