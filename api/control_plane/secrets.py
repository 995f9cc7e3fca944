"""Secrets of a deployment: refused names, encryption, and how they are read back."""

from typing import Any

from api.control_plane.schemas import Secret, SecretReply
from api.errors import BadRequestError
from storage.secrets import SecretBox

MASK = "********"
_RESERVED = frozenset(
    """
    LANGCHAIN_TRACING_V2 LANGSMITH_TRACING_V2 LANGCHAIN_ENDPOINT LANGCHAIN_PROJECT LANGSMITH_PROJECT
    LANGSMITH_LANGGRAPH_GIT_REPO LANGGRAPH_GIT_REPO_PATH LANGCHAIN_API_KEY LANGSMITH_CONTROL_PLANE_API_KEY
    POSTGRES_URI POSTGRES_PASSWORD DATABASE_URI LANGSMITH_LANGGRAPH_GIT_REF LANGSMITH_LANGGRAPH_GIT_REF_SHA
    LANGGRAPH_AUTH_TYPE LANGSMITH_AUTH_ENDPOINT LANGSMITH_TENANT_ID LANGSMITH_AUTH_VERIFY_TENANT_ID
    LANGSMITH_HOST_PROJECT_ID LANGSMITH_HOST_PROJECT_NAME LANGSMITH_HOST_REVISION_ID LOG_JSON LOG_DICT_TRACEBACKS
    REDIS_URI LANGCHAIN_CALLBACKS_BACKGROUND DD_TRACE_PSYCOPG_ENABLED DD_TRACE_REDIS_ENABLED
    LANGSMITH_DEPLOYMENT_NAME LANGGRAPH_CLOUD_LICENSE_KEY
    TEMPORAL_ADDRESS TEMPORAL_NAMESPACE
    """.split()  # noqa: SIM905
)
_RESERVED_PREFIX = "SLIPWAY_"


def sealed(box: SecretBox, given: list[Secret], stored: bytes | None) -> bytes | None:
    """`given` as a whole, encrypted. A value that is the mask keeps what is stored under that name, so that what
    was read may be sent back.

    Raises:
        BadRequestError: a reserved or repeated name, or a mask for a secret that does not exist.
    """
    known: dict[str, str] = box.decrypt(stored) if stored else {}
    values: dict[str, str] = {}
    for secret in given:
        if secret.name in _RESERVED or secret.name.startswith(_RESERVED_PREFIX):
            raise BadRequestError(
                f"Secret name '{secret.name}' is reserved for the platform; choose another one."
            )
        if secret.name in values:
            raise BadRequestError(f"Secret name '{secret.name}' is given twice.")
        if secret.value == MASK and secret.name not in known:
            raise BadRequestError(f"Secret '{secret.name}' has the value of a mask; send its real value.")
        values[secret.name] = known[secret.name] if secret.value == MASK else secret.value
    return box.encrypt(values) if values else None


def masked(box: SecretBox, stored: bytes | None) -> list[SecretReply]:
    """Names in alphabetical order, with masks for values."""
    names: dict[str, Any] = box.decrypt(stored) if stored else {}
    return [SecretReply(name=name, value=MASK) for name in sorted(names)]
