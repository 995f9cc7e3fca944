"""Creating, changing and deleting crons: the row and its schedule, both or neither (docs/architecture/crons.md)."""

from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from api.agent_server.cron_gateway import CronGateway, CronSchedule
from api.agent_server.cron_schedule import check_timezone, parse_schedule
from api.agent_server.cron_schemas import RUN_FIELDS, CronCreate, CronUpdate
from api.agent_server.request_options import REQUEST_ID
from api.agent_server.run_creation import find_assistant
from api.agent_server.webhooks import check_webhook
from api.errors import BadRequestError, NotFoundError
from api.services import Services
from storage.crons import Crons
from storage.ids import new_id
from storage.run_fields import given_configurable
from storage.scope import DeploymentScope
from storage.served import ServedDeployment
from storage.threads import Threads
from workflows.messages.cron import CronInput

_NOT_FOUND = "Thread or assistant not found."
_CLEARED_BY_NULL = frozenset({"end_time", "timezone"})


async def create_cron(
    services: Services, deployment: ServedDeployment, body: CronCreate, thread_id: UUID | None
) -> DictRow:
    """Store a cron and make its schedule.

    Should the commit fail after the schedule was made, the first firing finds no row and deletes the schedule.

    Raises:
        InvalidError: a bad schedule or time zone, or an assistant named after a graph that is unknown.
        NotFoundError: no such thread or assistant.
        UnavailableError: Temporal or PostgreSQL is away; nothing was stored.
    """
    check_webhook(services, deployment, body.webhook)
    calendars = parse_schedule(body.schedule)
    timezone = check_timezone(body.timezone) if body.timezone else None
    cron_id = new_id()
    payload = _payload(cron_id, deployment, body)
    async with services.database.transaction() as connection:
        assistant = await find_assistant(connection, deployment, body.assistant_id)
        if thread_id and await Threads(connection, deployment.scope).get(thread_id) is None:
            raise NotFoundError(_NOT_FOUND)
        crons = Crons(connection, deployment.scope)
        row = await crons.create(
            {
                "cron_id": cron_id,
                "assistant_id": assistant["assistant_id"],
                "thread_id": thread_id,
                "user_id": deployment.user_id,
                "schedule": body.schedule,
                "timezone": timezone,
                "end_time": body.end_time,
                "enabled": body.enabled is not False,
                "on_run_completed": body.on_run_completed or "delete",
                "payload": {**payload, "assistant_id": str(assistant["assistant_id"])},
                "metadata": deployment.stamped(body.metadata),
            }
        )
        schedule = CronSchedule(
            _input(deployment.scope, cron_id), calendars, timezone, body.end_time, row["enabled"]
        )
        next_run_date = await CronGateway(services.gateway).create(schedule)
        await crons.set_next_run_date(cron_id, next_run_date)
    return {**row, "next_run_date": next_run_date}


async def update_cron(
    services: Services, deployment: ServedDeployment, cron_id: UUID, body: CronUpdate
) -> DictRow:
    """Change a cron and its schedule.

    Raises:
        BadRequestError: nothing is to be changed.
        InvalidError: a bad schedule or time zone.
        NotFoundError: no such cron.
        UnavailableError: Temporal or PostgreSQL is away; repeat the change.
    """
    if not body.model_fields_set:
        raise BadRequestError("Request body cannot be empty")
    check_webhook(services, deployment, body.webhook)
    async with services.database.transaction() as connection:
        crons = Crons(connection, deployment.scope)
        known = await crons.lock(cron_id)
        if known is None:
            raise cron_not_found(cron_id)
        row = await crons.update(cron_id, _changes(known, deployment, body))
        assert row is not None, "it is locked"
        schedule = CronSchedule(
            _input(deployment.scope, cron_id),
            parse_schedule(row["schedule"]),
            check_timezone(row["timezone"]) if row["timezone"] else None,
            row["end_time"],
            row["enabled"],
        )
        next_run_date = await CronGateway(services.gateway).update(schedule)
        await crons.set_next_run_date(cron_id, next_run_date)
    return {**row, "next_run_date": next_run_date}


async def delete_cron(services: Services, deployment: ServedDeployment, cron_id: UUID) -> None:
    """Delete a cron and its schedule; runs that it created go on.

    Raises:
        NotFoundError: no such cron.
        UnavailableError: Temporal or PostgreSQL is away; repeat the call.
    """
    async with services.database.transaction() as connection:
        if not await Crons(connection, deployment.scope).delete(cron_id):
            raise cron_not_found(cron_id)
        await CronGateway(services.gateway).delete(str(cron_id))


def cron_not_found(cron_id: UUID) -> NotFoundError:
    return NotFoundError(f"Cron ID {cron_id} not found.")


def _payload(cron_id: UUID, deployment: ServedDeployment, body: CronCreate | CronUpdate) -> dict[str, Any]:
    """The body of the cron's runs, as far as it is given."""
    given = body.model_dump(include=set(RUN_FIELDS) - {"input"}, exclude_unset=True, exclude_none=True)
    if body.context and given_configurable(given):
        raise BadRequestError("Cannot specify both configurable and context. Prefer setting context alone.")
    if "input" in body.model_fields_set:
        given["input"] = body.input
    config = given.get("config") or {}
    # Whose cron it is stays with it; the request that made it does not.
    kept = {key: value for key, value in deployment.server_configurable.items() if key != REQUEST_ID}
    configurable = {**given_configurable(given), **kept, "cron_id": str(cron_id)}
    return {**given, "config": {**config, "configurable": configurable}}


def _changes(known: DictRow, deployment: ServedDeployment, body: CronUpdate) -> dict[str, Any]:
    given = {
        name: getattr(body, name)
        for name in body.model_fields_set
        if getattr(body, name) is not None or name in _CLEARED_BY_NULL
    }
    if given.get("timezone") is not None:
        check_timezone(given["timezone"])
    if given.get("schedule") is not None:
        parse_schedule(given["schedule"])
    payload = _payload(known["cron_id"], deployment, body)
    if "config" not in given:
        del payload["config"]
    columns = {name: value for name, value in given.items() if name not in RUN_FIELDS}
    if "metadata" in given:
        columns["metadata"] = given["metadata"]
    return {**columns, "payload": {**known["payload"], **payload}}


def _input(scope: DeploymentScope, cron_id: UUID) -> CronInput:
    return CronInput(str(scope.tenant_id), str(scope.deployment_id), str(cron_id))
