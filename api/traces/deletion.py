"""Deletes runs and whole traces, with their attachments and feedback."""

from uuid import UUID

import structlog

from api.services import Services
from storage.objects import ObjectStoreError
from storage.traces.deletion import BATCH, delete_runs_by_id, forget_objects, runs_of_traces

log = structlog.get_logger()


async def delete_runs(services: Services, tenant_id: UUID, run_ids: list[UUID]) -> int:
    """How many runs were deleted; unknown ids are left out."""
    if not run_ids:
        return 0
    async with services.database.transaction() as connection:
        count, keys = await delete_runs_by_id(connection, tenant_id, run_ids)
    await delete_objects(services, keys)
    return count


async def delete_traces(services: Services, tenant_id: UUID, trace_ids: list[UUID]) -> int:
    """How many runs were deleted, in as many transactions as it takes."""
    deleted = 0
    while trace_ids:
        async with services.database.connection() as connection:
            run_ids = await runs_of_traces(connection, tenant_id, trace_ids)
        deleted += await delete_runs(services, tenant_id, run_ids)
        if len(run_ids) < BATCH:
            break
    return deleted


async def delete_objects(services: Services, keys: list[str]) -> None:
    """Delete doomed objects; what the object store does not take now, the retention sweep tries again."""
    gone = []
    for key in keys:
        try:
            await services.objects.delete(key)
            gone.append(key)
        except ObjectStoreError as error:
            log.warning("attachment_not_deleted", key=key, error=str(error))
            break
    if gone:
        async with services.database.connection() as connection:
            await forget_objects(connection, gone)
