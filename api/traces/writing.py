"""Stores a submission for a caller: projects resolved, attachments sent, rows committed."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from api.authentication import Caller
from api.errors import ApiError, ConflictError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from api.services import Services
from api.traces.attachments import CONNECTION_SECONDS, abandon, upload
from api.traces.submission import Submission
from storage.database import Connection
from storage.projects import DEFAULT_PROJECT, Project, project_of_deployment, projects_for_writing
from storage.traces.changes import RunChange
from storage.traces.feedback import FeedbackConflictError
from storage.traces.ingest import Batch, ForeignProjectError, ingest
from storage.traces.partitions import ensure_partitions
from storage.traces.uploads import UploadExpiredError

log = structlog.get_logger()
_ATTEMPTS = 5
# The Python SDK tries four times in all, as far apart as we say: this is how long an outage it bridges.
_OUTAGE_RETRY_SECONDS = 5


async def store(services: Services, caller: Caller, submission: Submission) -> None:
    """Commit a submission whole. Doing it again changes nothing.

    Raises:
        ForbiddenError: a tracing key reaches beyond its deployment's project.
        ConflictError: a feedback id that belongs to another run's feedback.
        NotFoundError: a project id that the workspace does not have.
        UnavailableError: the database or the object store is away, or writers are in each other's way.
    """
    if not submission.changes and not submission.feedback:
        return
    try:
        files = [(change.run_id, file) for change in submission.changes for file in change.attachments]
        keys = await upload(services, caller.tenant_id, files)
        try:
            moments = [
                change.values["start_time"] for change in submission.changes if "start_time" in change.values
            ]
            await ensure_partitions(services.database, moments)
            await commit(services, lambda connection: _resolve(connection, caller, submission))
        except ApiError:
            await abandon(services, keys)
            raise
    except (psycopg.OperationalError, PoolTimeout) as error:
        log.warning("ingest_without_database", tenant_id=str(caller.tenant_id), error=str(error))
        raise UnavailableError(
            "The database cannot be reached; try again, that stores nothing twice.", _OUTAGE_RETRY_SECONDS
        ) from None


async def commit(services: Services, batch_of: Callable[[Connection], Awaitable[Batch]]) -> None:
    """Ingest the batch that `batch_of` makes in the transaction; again, when the database sees writers in a circle.

    Raises:
        ApiError: see `store`.
    """
    for attempt in range(_ATTEMPTS):
        try:
            async with services.database.transaction(CONNECTION_SECONDS) as connection:
                await ingest(connection, await batch_of(connection))
            return
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            log.warning("ingest_conflict", attempt=attempt)
            await asyncio.sleep(0.05 * 2**attempt)
        except FeedbackConflictError as error:
            raise ConflictError(str(error)) from None
        except ForeignProjectError as error:
            raise ForbiddenError(str(error)) from None
        except UploadExpiredError as error:
            raise UnavailableError(f"{error} Try again.") from None
    raise UnavailableError("Others write the same runs at the same time; try again.")


async def _resolve(connection: Connection, caller: Caller, submission: Submission) -> Batch:
    """Project ids in every change."""
    own: Project | None = None
    if caller.holder.scope == "tracing" and caller.holder.deployment_id:
        own = await project_of_deployment(connection, caller.tenant_id, caller.holder.deployment_id)
        if own is None:
            raise ForbiddenError("The deployment of this API key is gone.")
    names: set[str] = set()
    ids = {record.session_id for record in submission.feedback if record.session_id}
    for change in submission.changes:
        if "session_id" in change.values and "session_id" not in change.provisional:
            ids.add(change.values["session_id"])
        elif own is None:
            names.add(change.session_name or DEFAULT_PROJECT)
    if own is not None:
        _check_own(own, submission)
        by_name, by_id = {own.name: own}, {own.project_id: own}
    else:
        try:
            by_name, by_id = await projects_for_writing(connection, caller.tenant_id, names, ids)
        except ValueError as error:
            raise InvalidError(f"session_name: {error}") from None
    unknown = ids - by_id.keys()
    if unknown:
        raise NotFoundError(f"Project {min(unknown)} not found.")
    changes = [
        _placed(change, own.name if own else DEFAULT_PROJECT, by_name) for change in submission.changes
    ]
    projects = {project.project_id: project for project in (*by_name.values(), *by_id.values())}
    return Batch(
        caller.tenant_id,
        changes,
        projects,
        submission.feedback,
        only_project=own.project_id if own else None,
    )


def _placed(change: RunChange, default: str, by_name: dict[str, Project]) -> RunChange:
    """The change with its project's id; the given one stays as it is, for a project made now may be rolled back."""
    if "session_id" in change.values and "session_id" not in change.provisional:
        return change
    values = {**change.values, "session_id": by_name[change.session_name or default].project_id}
    provisional = change.provisional if change.session_name else change.provisional | {"session_id"}
    return RunChange(
        change.run_id, change.is_create, values, change.session_name, provisional, change.attachments
    )


def _check_own(own: Project, submission: Submission) -> None:
    ids: set[UUID | None] = {change.values.get("session_id") for change in submission.changes}
    ids |= {record.session_id for record in submission.feedback}
    names = {change.session_name for change in submission.changes}
    if ids - {None, own.project_id} or names - {None, own.name}:
        raise ForbiddenError(f"This API key may only write to the project {own.name!r}.")
