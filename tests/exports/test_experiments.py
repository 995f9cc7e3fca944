"""Exports of all experiments of a workspace."""

from datetime import timedelta
from uuid import UUID, uuid4

from temporalio.client import Client

from storage.exports import Exports, NewExport
from storage.ids import new_id
from tests.exports.conftest import BASE, Exporter
from tests.exports.seeding import DAY, add_runs
from workflows.messages import names
from workflows.messages.export import EXPORT_WORKFLOW, ExportInput

END = DAY + timedelta(days=1)


async def experiment(exporter: Exporter, name: str, runs: int = 3) -> UUID:
    project = await exporter.project(name)
    async with exporter.database.transaction() as connection:
        await connection.execute(
            "UPDATE projects SET reference_dataset_id = %s WHERE id = %s", (uuid4(), project)
        )
    await add_runs(exporter.database, exporter.tenant_id, project, runs)
    return project


async def test_all_experiments_are_exported_and_nothing_else(exporter: Exporter) -> None:
    experiments = [await experiment(exporter, name) for name in ("first", "second")]
    await add_runs(exporter.database, exporter.tenant_id, await exporter.project("not an experiment"), 5)
    destination = await exporter.create_destination()

    created = await exporter.create(destination, DAY, END, all_experiments=True)
    ended = await exporter.wait(created["id"])

    assert (ended["status"], ended["progress"]["rows_written"]) == ("COMPLETED", 6)
    runs = (await exporter.client.get(f"{BASE}/{created['id']}/runs")).json()
    assert {run["session_id"] for run in runs} == {str(project) for project in experiments}
    folders = {key.split("/")[2] for key in await exporter.keys("export_id=")}
    assert folders == {f"session_id={project}" for project in experiments}


async def test_a_workspace_without_experiments_has_an_empty_export(exporter: Exporter) -> None:
    created = await exporter.create(await exporter.create_destination(), DAY, END, all_experiments=True)

    ended = await exporter.wait(created["id"])

    assert (ended["status"], ended["progress"]["rows_written"]) == ("COMPLETED", 0)


async def test_a_project_deleted_before_it_was_planned_fails_with_the_reason(
    exporter: Exporter, temporal_client: Client
) -> None:
    """The workflow starts after the deletion, as it does where workers were down in between."""
    project = await exporter.project()
    await add_runs(exporter.database, exporter.tenant_id, project, 5)
    destination = await exporter.create_destination()
    export_id = new_id()
    async with exporter.database.transaction() as connection:
        await Exports(connection, exporter.tenant_id).create(_of(project, UUID(destination), export_id))
        await connection.execute("UPDATE projects SET deleted_at = now() WHERE id = %s", (project,))

    await temporal_client.execute_workflow(
        EXPORT_WORKFLOW,
        ExportInput(str(exporter.tenant_id), str(export_id)),
        id=names.export_workflow_id(str(export_id)),
        task_queue=names.PLATFORM_QUEUE,
    )

    ended = await exporter.get(str(export_id))
    assert (ended["status"], ended["error"]) == ("FAILED", f"The project {project} does not exist any more.")
    assert await exporter.keys() == []
    refused = await exporter.client.post(
        BASE,
        json={
            "bulk_export_destination_id": destination,
            "session_id": str(project),
            "start_time": DAY.isoformat(),
            "end_time": END.isoformat(),
        },
    )
    assert refused.status_code == 404


def _of(project: UUID, destination: UUID, export_id: UUID) -> NewExport:
    return NewExport(
        id=export_id,
        destination_id=destination,
        session_id=project,
        all_experiments=False,
        start_time=DAY,
        end_time=END,
        filter=None,
        format_version="v2_beta",
        compression="zstandard",
        interval_hours=None,
        export_fields=None,
    )
