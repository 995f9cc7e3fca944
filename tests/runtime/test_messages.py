"""The runtime's own copy of the wire is the platform's."""

import dataclasses
from enum import StrEnum

import pytest
from slipway_runtime import messages as ours

from api.notifications import CHANNEL, ONLY_EVENTS
from workflows.messages import names, revision, thread


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (ours.ExecuteRun, thread.ExecuteRun),
        (ours.RunResult, thread.RunResult),
        (ours.GraphDescription, revision.GraphDescription),
        (ours.Description, revision.Description),
        (ours.UpdateState, revision.UpdateState),
        (ours.CallRevision, revision.CallRevision),
    ],
)
def test_dataclasses_have_the_same_fields(mine: type, theirs: type) -> None:
    def shape(kind: type) -> list[tuple[str, str]]:
        return [
            (field.name, str(field.type).replace(kind.__module__ + ".", ""))
            for field in dataclasses.fields(kind)
        ]

    assert shape(mine) == shape(theirs)


def test_names_are_the_same() -> None:
    assert (ours.EXECUTE_RUN, ours.DESCRIBE_REVISION, ours.UPDATE_STATE, ours.CALL_REVISION) == (
        thread.EXECUTE_RUN,
        revision.DESCRIBE_REVISION,
        revision.UPDATE_STATE,
        revision.CALL_REVISION,
    )
    assert list(ours.CallKind) == list(revision.CallKind)
    assert ours.deployment_queue("x") == names.deployment_queue("x")
    assert ours.revision_queue("x") == names.revision_queue("x")
    assert ours.worker_set_queue("x") == names.worker_set_queue("x")
    assert (ours.NOTIFY_CHANNEL, ours.ONLY_EVENTS) == (CHANNEL, ONLY_EVENTS)
    mine: type[StrEnum] = ours.Outcome
    assert {member.value for member in mine} == {member.value for member in thread.Outcome}
