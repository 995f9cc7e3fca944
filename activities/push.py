"""Following branches: a listener reads where they are, the platform makes revisions of those that moved."""

import asyncio
from uuid import UUID

import structlog
from temporalio import activity
from temporalio.client import Client

from activities.compute.temporary import TemporaryFolders
from activities.git import GitRepositories, SourceError
from activities.heartbeats import heartbeats
from settings import Settings
from storage.branches import (
    FollowedBranch,
    MovedBranch,
    due_branches,
    listeners_of_due_branches,
    moved_branches,
    note_head,
    note_problem,
)
from storage.database import Database
from storage.deployments import get_deployment, update_deployment
from storage.ids import new_id
from storage.revisions import get_revision, insert_revision
from workflows.messages.push import BUILD_PUSHED, FIND_FOLLOWERS, LOOK_AT_BRANCHES, LookAtBranches
from workflows.messages.rollout import (
    SUBMIT_REVISION_SIGNAL,
    TERMINAL,
    Limits,
    RevisionStatus,
    RolloutInput,
    SubmitRevision,
)
from workflows.messages.submission import tell_deployment

log = structlog.get_logger()

_BRANCHES_A_LOOK = 200
_LOOKS_AT_ONCE = 4
_LONGEST_WAIT_SECONDS = 6 * 3600.0
_LONGEST_PROBLEM = 1_000


class BranchActivities:
    """On a listener: its host may reach repositories that the platform's cannot."""

    def __init__(self, database: Database, git: GitRepositories, temporary: TemporaryFolders) -> None:
        self._database = database
        self._git = git
        self._temporary = temporary

    @activity.defn(name=LOOK_AT_BRANCHES)
    async def look(self, look: LookAtBranches) -> int:
        """Note where the due branches are, or why that cannot be said; how many were read."""
        async with self._database.connection() as connection:
            branches = await due_branches(connection, UUID(look.listener_id), TERMINAL, _BRANCHES_A_LOOK)
        turn = asyncio.Semaphore(_LOOKS_AT_ONCE)
        async with heartbeats():
            read = await asyncio.gather(*(self._look_at(branch, look, turn) for branch in branches))
        return sum(read)

    async def _look_at(self, branch: FollowedBranch, look: LookAtBranches, turn: asyncio.Semaphore) -> bool:
        async with turn, self._temporary.folder() as folder:
            try:
                head = await self._git.head(branch.url, branch.branch, folder)
            except SourceError as error:
                wait = min(look.retry_seconds * 2.0**branch.failures, _LONGEST_WAIT_SECONDS)
                log.warning(
                    "branch_not_read",
                    tenant_id=str(branch.tenant_id),
                    deployment_id=str(branch.deployment_id),
                    failures=branch.failures + 1,
                    next_look_seconds=wait,
                    error=str(error)[:300],
                )
                async with self._database.connection() as connection:
                    await note_problem(connection, branch, str(error)[:_LONGEST_PROBLEM], wait)
                return False
        async with self._database.connection() as connection:
            await note_head(connection, branch, head)
        return True


class PushActivities:
    """On the platform. Idempotent: a revision is made only where the newest one is of another commit."""

    def __init__(self, database: Database, client: Client, settings: Settings) -> None:
        self._database = database
        self._client = client
        self._limits = Limits(
            settings.build_timeout_seconds,
            settings.probe_timeout_seconds,
            settings.drain_seconds,
            settings.listener_timeout_seconds,
        )

    @activity.defn(name=FIND_FOLLOWERS)
    async def find_followers(self) -> list[str]:
        """Listeners with branches to look at."""
        async with self._database.connection() as connection:
            return [str(found) for found in await listeners_of_due_branches(connection, TERMINAL)]

    @activity.defn(name=BUILD_PUSHED)
    async def build_pushed(self) -> int:
        """A revision for each branch that has moved; how many. One that fails leaves the others their turn."""
        async with self._database.connection() as connection:
            moved = await moved_branches(connection, TERMINAL, _BRANCHES_A_LOOK)
        built = 0
        for branch in moved:
            try:
                built += await self._build(branch)
            except Exception as error:
                log.warning("push_not_built", deployment_id=str(branch.deployment_id), error=str(error)[:300])
        return built

    async def _build(self, branch: MovedBranch) -> bool:
        """Row and message together or not at all, as when a user creates a revision."""
        async with self._database.transaction() as connection:
            deployment = await get_deployment(connection, branch.tenant_id, branch.deployment_id, lock=True)
            if deployment is None or deployment.deleted_at or deployment.latest_revision_id is None:
                return False
            newest = await get_revision(
                connection, branch.tenant_id, branch.deployment_id, deployment.latest_revision_id
            )
            known = newest.source_revision_config.get("repo_commit_sha") if newest else None
            if newest is None or newest.status not in TERMINAL or known == branch.head:
                return False
            config = {**deployment.source_revision_config, "repo_commit_sha": branch.head}
            if followed := deployment.source_config.get("repo_branch"):
                config["repo_ref"] = followed
            revision = await insert_revision(
                connection,
                {
                    "id": new_id(),
                    "tenant_id": branch.tenant_id,
                    "deployment_id": branch.deployment_id,
                    "source": deployment.source,
                    "source_config": deployment.source_config,
                    "source_revision_config": config,
                    "secrets": deployment.secrets,
                    "secret_references": deployment.secret_references,
                    "status": RevisionStatus.CREATING.value,
                    "status_message": f"Commit {branch.head} was pushed.",
                },
            )
            await update_deployment(
                connection, branch.tenant_id, branch.deployment_id, {"latest_revision_id": revision.id}
            )
            await tell_deployment(
                self._client,
                RolloutInput(
                    str(deployment.tenant_id),
                    str(deployment.id),
                    deployment.name,
                    str(deployment.listener_id),
                ),
                SUBMIT_REVISION_SIGNAL,
                SubmitRevision(str(revision.id), limits=self._limits),
            )
        log.info("push_built", deployment_id=str(deployment.id), revision_id=str(revision.id))
        return True
