"""Config and context of assistants as clients give them (contract §2)."""

from typing import Any

from api.agent_server.schemas import RunConfig
from api.errors import BadRequestError
from storage.run_fields import given_configurable


def mirrored(
    given: RunConfig | None, context: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and context, each mirrored into the other where it is given alone; without reserved keys.

    Raises:
        BadRequestError: both are given.
    """
    config = given.model_dump(exclude_none=True, exclude_unset=True) if given else {}
    configurable = given_configurable({"config": config})
    if configurable and context:
        raise BadRequestError("Cannot specify both configurable and context. Prefer setting context alone.")
    config.pop("configurable", None)
    if configurable or context:
        config["configurable"] = configurable or context
    return config, dict(context or configurable)
