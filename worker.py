"""Composition root of every Temporal worker process: the roles `platform` and `listener`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

from activities.autoscale import AutoscaleActivities
from activities.cron import CronActivities
from activities.export import ExportActivities
from activities.export_memory import keep_large_blocks
from activities.export_run import ExportRunActivities, PipelineSizes
from activities.export_schedule import ExportScheduleActivities
from activities.listener import open_listener
from activities.prune import BuilderActivities
from activities.push import PushActivities
from activities.rollout import RolloutActivities
from activities.schedules import ensure_schedule
from activities.sweep import SweepActivities, ensure_sweep_schedule
from activities.thread import ThreadActivities
from activities.trace_retention import TraceRetentionActivities, ensure_trace_retention_schedule
from activities.webhook import WebhookActivities
from activities.worker_deployments import WorkerDeployments
from settings import Settings
from storage.database import Database
from storage.objects import open_object_store
from storage.secrets import SecretBox, load_secret_box
from workflows.autoscale import AutoscaleWorkflow
from workflows.cron import CronWorkflow
from workflows.export import ExportWorkflow
from workflows.export_schedule import ExportBackfillWorkflow, ExportWindowWorkflow
from workflows.lane import LaneWorkflow
from workflows.messages import names
from workflows.messages.autoscale import AUTOSCALE_SCHEDULE, AUTOSCALE_WORKFLOW, Autoscale
from workflows.messages.prune import PRUNE_SCHEDULE, PRUNE_WORKFLOW, Prune
from workflows.messages.push import PUSH_SCHEDULE, PUSH_WORKFLOW, FollowBranches
from workflows.prune import PruneWorkflow
from workflows.push import PushWorkflow
from workflows.revision import RevisionWorkflow
from workflows.rollout import RolloutWorkflow
from workflows.sweep import SweepWorkflow
from workflows.thread import ThreadWorkflow
from workflows.trace_retention import TraceRetentionWorkflow
from workflows.webhook import WebhookWorkflow

ROLES = ("platform", "listener")
# Every workflow of the platform; recorded histories of each are replayed by tests/workflows/test_replay.py.
WORKFLOWS: Sequence[type] = [
    AutoscaleWorkflow,
    CronWorkflow,
    ThreadWorkflow,
    LaneWorkflow,
    ExportWorkflow,
    ExportWindowWorkflow,
    ExportBackfillWorkflow,
    PruneWorkflow,
    PushWorkflow,
    RolloutWorkflow,
    RevisionWorkflow,
    SweepWorkflow,
    TraceRetentionWorkflow,
    WebhookWorkflow,
]
_GRACEFUL_SHUTDOWN = timedelta(seconds=10)


async def run(role: str, settings: Settings) -> None:
    """Serve a role's task queues until this task is cancelled."""
    serve = {"platform": _platform, "listener": _listener}[role]
    if role == "platform":
        keep_large_blocks()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            Database(settings.require_database_url(), settings.database_pool_size)
        )
        client = await connect(settings)
        await serve(settings, database, client)


async def connect(settings: Settings) -> Client:
    """A client of the configured Temporal."""
    options = ClientConfig.load_client_connect_config()
    options["target_host"] = settings.temporal_target
    return await Client.connect(**options)


async def _platform(settings: Settings, database: Database, client: Client) -> None:
    """Every workflow, and the activities of threads, rollouts and exports."""
    async with AsyncExitStack() as stack:
        objects = await stack.enter_async_context(open_object_store(settings))
        rollouts = RolloutActivities(database, _secrets(settings), WorkerDeployments(client), objects)
        platform = Worker(
            client,
            task_queue=names.PLATFORM_QUEUE,
            workflows=WORKFLOWS,
            activities=[
                *_methods(SweepActivities(database, client, settings)),
                *_methods(TraceRetentionActivities(database, objects, settings)),
                *_methods(ThreadActivities(database)),
                *_methods(CronActivities(database, client, settings)),
                *_methods(
                    WebhookActivities(
                        database,
                        _secrets(settings),
                        allow_private_endpoints=settings.allow_private_endpoints,
                    )
                ),
                *_methods(_export_records(settings, database)),
                *_methods(
                    ExportScheduleActivities(
                        database, client, creations_per_hour=settings.export_creations_per_hour
                    )
                ),
                *_methods(rollouts),
                *_methods(AutoscaleActivities(database, settings.worker_slots)),
                *_methods(PushActivities(database, client, settings)),
                *_methods(BuilderActivities(database)),
            ],
            graceful_shutdown_timeout=_GRACEFUL_SHUTDOWN,
            max_cached_workflows=2_000,
            max_concurrent_activities=100,
        )
        await stack.enter_async_context(platform)
        await ensure_sweep_schedule(client, timedelta(seconds=settings.sweep_interval_seconds))
        await ensure_trace_retention_schedule(
            client, timedelta(seconds=settings.trace_retention_interval_seconds)
        )
        await ensure_schedule(
            client,
            AUTOSCALE_SCHEDULE,
            AUTOSCALE_WORKFLOW,
            Autoscale(scale_down_seconds=settings.scale_down_seconds),
            timedelta(seconds=settings.autoscale_interval_seconds),
            "Worker processes follow the runs that wait",
        )
        await ensure_schedule(
            client,
            PRUNE_SCHEDULE,
            PRUNE_WORKFLOW,
            Prune(),
            timedelta(seconds=settings.prune_interval_seconds),
            "Old builds are removed from the listeners' hosts",
        )
        await ensure_schedule(
            client,
            PUSH_SCHEDULE,
            PUSH_WORKFLOW,
            FollowBranches(retry_seconds=settings.push_interval_seconds),
            timedelta(seconds=settings.push_interval_seconds),
            "Branches that have moved are built",
        )
        await stack.enter_async_context(_export_worker(settings, database, client))
        await _until_cancelled()


def _export_worker(settings: Settings, database: Database, client: Client) -> Worker:
    """Writes export runs: a queue of its own, so that bulk work never takes a slot from anything else."""
    activities = ExportRunActivities(
        database,
        _secrets(settings),
        allow_private_endpoints=settings.allow_private_endpoints,
        sizes=PipelineSizes(file_bytes=settings.export_file_target_bytes),
    )
    return Worker(
        client,
        task_queue=names.EXPORT_QUEUE,
        activities=_methods(activities),
        graceful_shutdown_timeout=timedelta(0),
        max_concurrent_activities=settings.export_worker_slots,
        max_heartbeat_throttle_interval=timedelta(seconds=5),
    )


def _export_records(settings: Settings, database: Database) -> ExportActivities:
    return ExportActivities(
        database,
        _secrets(settings),
        allow_private_endpoints=settings.allow_private_endpoints,
        max_experiments=settings.export_max_experiments,
    )


def _secrets(settings: Settings) -> SecretBox:
    keys = settings.secret_keys
    return load_secret_box(keys.get_secret_value() if keys else None, settings.home)


async def _listener(settings: Settings, database: Database, client: Client) -> None:
    """Builds, starts, watches and stops revisions on this host."""
    async with open_listener(settings, database) as activities:
        worker = Worker(
            client,
            task_queue=names.listener_queue(settings.listener_id),
            activities=activities,
            graceful_shutdown_timeout=timedelta(seconds=2),
            max_concurrent_activities=100,
            # A cancelled step hears of it with its next heartbeat.
            max_heartbeat_throttle_interval=timedelta(seconds=1),
            default_heartbeat_throttle_interval=timedelta(seconds=1),
        )
        async with worker:
            await _until_cancelled()


def _methods(instance: object) -> Sequence[Callable[..., Any]]:
    """The activities among an instance's methods."""
    members = (getattr(instance, name) for name in dir(instance) if not name.startswith("_"))
    return [member for member in members if hasattr(member, "__temporal_activity_definition")]


async def _until_cancelled() -> None:
    await asyncio.Event().wait()
