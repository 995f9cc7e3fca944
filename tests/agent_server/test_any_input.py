"""Any input at all: never a 500, never a status or a shape that the OpenAPI document does not know.

For every operation `schemathesis` makes requests that the document allows and requests that it forbids; half of them
name a thread, a run and an assistant that exist. Bounded: so many requests for each operation, and a minute for all.
"""

import re
import time
from typing import Any
from uuid import uuid4

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.agent_server.app import create_agent_server
from storage.assistants import system_assistant_id
from tests.agent_server.conftest import Deployment

_EXAMPLES = 20
# What all operations share; the last request of each, and the set-up, come on top.
_SECONDS = 25.0
_CALL_SECONDS = 5
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# Answered as long as the client listens, or until a run has ended.
_OPEN_ENDED = re.compile(r"/(stream|wait|join|commands)$")

_SCHEMA = schemathesis.openapi.from_dict(create_agent_server().openapi())
_OPERATIONS = {result.ok().label: result.ok() for result in _SCHEMA.get_all_operations()}


@pytest.fixture(scope="module")
async def known(deployment: Deployment) -> dict[str, str]:
    """Ids that exist; each test that deletes one leaves the others their 404."""
    thread = await deployment.sdk.threads.create(metadata={"graph_id": "counter"})
    run = await deployment.sdk.runs.create(thread["thread_id"], "counter", input={"inputs": ["a"]})
    await deployment.sdk.runs.join(thread["thread_id"], run["run_id"])
    assistant = await deployment.sdk.assistants.create("counter")
    return {
        "thread_id": thread["thread_id"],
        "run_id": run["run_id"],
        "assistant_id": assistant["assistant_id"],
        "system_assistant_id": str(system_assistant_id("counter")),
    }


@pytest.mark.parametrize("label", _OPERATIONS)
def test_any_input_is_answered_as_documented(
    label: str, deployment: Deployment, known: dict[str, str]
) -> None:
    operation = _OPERATIONS[label]
    open_ended = bool(_OPEN_ENDED.search(operation.path))
    ends_at = time.monotonic() + _SECONDS / len(_OPERATIONS)
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode))

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, with_known=st.booleans())
    def check(case: Any, with_known: bool) -> None:
        if time.monotonic() > ends_at:
            return
        if with_known and not open_ended:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = known.get(name, case.path_parameters[name])
        elif open_ended and "thread_id" in (case.path_parameters or {}):
            case.path_parameters["thread_id"] = str(uuid4())
        try:
            response = case.call(
                base_url=deployment.url,
                headers={"X-Api-Key": deployment.api_key},
                timeout=_CALL_SECONDS,
            )
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeEncodeError):
            return
        case.validate_response(response, checks=_CHECKS)

    check()
