"""Where the objects of an export lie under a destination's prefix (mission document, Exported data layout)."""

from datetime import UTC, datetime
from uuid import UUID


def run_folder(export_id: UUID, tenant_id: UUID, session_id: UUID, start_time: datetime) -> str:
    """Hive-partitioned folder of one project and UTC day, without slashes at its ends."""
    day = start_time.astimezone(UTC)
    return (
        f"export_id={export_id}/tenant_id={tenant_id}/session_id={session_id}/runs"
        f"/year={day.year}/month={day.month}/day={day.day}"
    )


def manifest_path(export_id: UUID) -> str:
    """The manifest, outside the data folders: readers glob `export_id=*`."""
    return f"manifests/export_id={export_id}.json"
