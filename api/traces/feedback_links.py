"""Links with which whoever holds one rates one run under one key (agent server contract §4, event `feedback`)."""

from dataclasses import dataclass
from uuid import UUID

from fastapi import APIRouter, Request

from api.authentication import Caller
from api.errors import NotFoundError
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.feedback_reader import read_feedback, read_opinion
from api.traces.submission import Submission, read_object
from api.traces.writing import store
from storage.feedback_tokens import find_feedback_token
from storage.tenancy import KeyHolder, find_tenant

router = APIRouter(tags=["traces"])

_NO_KEY = UUID(int=0)


@router.post("/feedback/tokens/{token}")
async def rate(token: str, request: Request, services: CurrentServices) -> JsonAnswer:
    """`score`, `value`, `comment` and `correction` of what the link is about; again replaces them.

    Needs no key: the link is the permission, and it ends.
    """
    rated = await _find_token(services, token)
    opinion = read_opinion(read_object(await request.body()))
    record = read_feedback({"id": str(rated.feedback_id), "key": rated.key, "run_id": str(rated.run_id)})
    record.values |= opinion
    await store(services, await _holder_of_link(services, rated.tenant_id), Submission(feedback=[record]))
    return JsonAnswer({"id": record.feedback_id, "run_id": rated.run_id, "key": record.key})


@dataclass(frozen=True)
class _Rated:
    """One record for each link, so that it cannot fill the store however often it is used."""

    tenant_id: UUID
    run_id: UUID
    key: str
    feedback_id: UUID


async def _find_token(services: Services, token: str) -> _Rated:
    """What a token is about: of `api.traces.feedback_tokens`, or of the end of a run.

    Raises:
        NotFoundError: it is none, or its time is over.
    """
    try:
        given = UUID(token)
    except ValueError:
        raise NotFoundError("No such feedback token: it must be a UUID.") from None
    async with services.database.connection() as connection:
        row = await find_feedback_token(connection, given)
    if row is None:
        raise NotFoundError("No such feedback token, or it has expired.")
    return _Rated(row["tenant_id"], row["run_id"], row["feedback_key"], row["feedback_id"])


async def _holder_of_link(services: Services, tenant_id: UUID) -> Caller:
    async with services.database.connection() as connection:
        tenant = await find_tenant(connection, tenant_id)
    if tenant is None:
        raise NotFoundError("No such feedback link.")
    return Caller(tenant, KeyHolder(_NO_KEY, tenant, "workspace", None))
