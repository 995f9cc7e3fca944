"""Ingestion endpoints (trace contract §5.4). A 202 means that everything in the request is committed."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request

from api.authentication import Caller, TracingCaller
from api.errors import SentenceRoute
from api.services import CurrentServices, Services
from api.traces.answers import JsonAnswer
from api.traces.body import decode_body
from api.traces.gate import Admission
from api.traces.multipart import read_boundary
from api.traces.run_reader import read_run, read_uuid
from api.traces.submission import Submission, read_batch, read_multipart, read_object
from api.traces.writing import store

router = APIRouter(tags=["traces"], route_class=SentenceRoute)

# Larger bodies, and those that may become larger, are read in a thread, so that other requests go on meanwhile.
_SMALL_BYTES = 32_768

Reader = Callable[[bytes | bytearray], Submission]


@router.post("/runs/multipart", status_code=202)
async def ingest_multipart(request: Request, services: CurrentServices, caller: TracingCaller) -> JsonAnswer:
    """Creates and patches of runs, their attachments and feedback, as multipart/form-data parts."""
    boundary = read_boundary(request.headers.get("content-type", ""))
    return await _ingest(request, services, caller, lambda body: read_multipart(body, boundary))


@router.post("/runs/batch", status_code=202)
async def ingest_batch(request: Request, services: CurrentServices, caller: TracingCaller) -> JsonAnswer:
    """Creates and patches of runs as one JSON object."""
    return await _ingest(request, services, caller, read_batch)


@router.post("/runs", status_code=202)
async def create_run(request: Request, services: CurrentServices, caller: TracingCaller) -> JsonAnswer:
    """One run; trace and dotted order are derived if they are missing."""

    def read(body: bytes | bytearray) -> Submission:
        run = read_object(body)
        return Submission([read_run(read_uuid(run.get("id"), "id"), True, run)])

    return await _ingest_one(request, services, caller, read)


@router.patch("/runs/{run_id}", status_code=202)
async def update_run(
    run_id: UUID, request: Request, services: CurrentServices, caller: TracingCaller
) -> JsonAnswer:
    """A patch of one run, which may come before its create."""
    return await _ingest_one(
        request, services, caller, lambda body: Submission([read_run(run_id, False, read_object(body))])
    )


async def _ingest(request: Request, services: Services, caller: Caller, read: Reader) -> JsonAnswer:
    async with services.ingest_gate.admit(request, caller.tenant_id) as admission:
        submission = await read_admitted(services, request, admission, read)
        await store(services, caller, submission)
    return _accepted(submission)


async def _ingest_one(request: Request, services: Services, caller: Caller, read: Reader) -> JsonAnswer:
    async with services.ingest_gate.read(request, caller.tenant_id) as admission:
        submission = await read_admitted(services, request, admission, read)
        await services.single_runs.store(services, caller, submission)
    return _accepted(submission)


def _accepted(submission: Submission) -> JsonAnswer:
    answer: dict[str, Any] = {"message": "Runs ingested", "runs": len(submission.changes)}
    return JsonAnswer(answer, 202)


async def read_admitted(
    services: Services, request: Request, admission: Admission, read: Reader
) -> Submission:
    """What an admitted body asks for, decoded and checked.

    Raises:
        ApiError: the body is malformed, too large, or, decompressed, more than this process can hold now.
    """
    body = admission.body
    encoding = request.headers.get("content-encoding", "")
    if len(body) < _SMALL_BYTES and not encoding:
        return read(body)
    decoded = await asyncio.to_thread(decode_body, body, encoding, services.settings.max_trace_body_bytes)
    if decoded is not body:
        admission.hold(len(decoded))
    return await asyncio.to_thread(read, decoded)
