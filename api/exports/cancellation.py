"""Cancelling exports and schedules."""

from uuid import UUID

from api.authentication import Caller
from api.errors import ConflictError, NotFoundError
from api.exports.gateway import ExportGateway
from api.services import Services
from storage.export_runs import ExportRuns
from storage.exports import Export, Exports
from workflows.messages.export import UNFINISHED, ExportStatus


async def cancel_export(services: Services, caller: Caller, export_id: UUID) -> Export:
    """Cancel an export: from the commit on none of its runs can finish another file. Repeating it is fine.

    A schedule spawns nothing more; exports that it has spawned go on (mission document).

    Raises:
        NotFoundError: no such export.
        ConflictError: it has ended otherwise.
        UnavailableError: Temporal or PostgreSQL is away; nothing was changed.
    """
    gateway = ExportGateway(services.gateway)
    async with services.database.transaction() as connection:
        exports = Exports(connection, caller.tenant_id)
        status = await exports.lock_status(export_id)
        if status is None:
            raise NotFoundError(f"Bulk export ID {export_id} not found.")
        if status in UNFINISHED:
            await ExportRuns(connection, caller.tenant_id).end_unfinished(export_id, ExportStatus.CANCELLED)
            await exports.finish(export_id, ExportStatus.CANCELLED, None)
        elif status != ExportStatus.CANCELLED:
            raise ConflictError(f"Bulk export {export_id} has ended as {status} and can not be cancelled.")
        export = await exports.get(export_id)
        assert export is not None
        if export.interval_hours is not None:
            await gateway.delete_schedule(str(export_id))
        else:
            await gateway.cancel(str(export_id))
    return export
