"""Branches that deployments follow (`build_on_push`): where each was last seen, and when it is looked at again."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from storage.database import Connection

# Deployments whose newest revision has ended; before that it may still fetch what a look would see.
_FOLLOWED = (
    " FROM deployments d JOIN revisions r ON r.id = d.latest_revision_id AND r.tenant_id = d.tenant_id"
    " LEFT JOIN followed_branches f ON f.deployment_id = d.id AND f.tenant_id = d.tenant_id"
    " WHERE d.source = 'github' AND d.source_config->>'build_on_push' = 'true' AND d.deleted_at IS NULL"
    " AND r.status = ANY(%(ended)s)"
)
# After so many failures in a row nobody looks again, until the deployment is changed.
_GIVEN_UP = 20
_DUE = (
    f" AND (f.deployment_id IS NULL OR d.updated_at > f.looked_at"
    f" OR (f.next_look_at <= now() AND f.failures < {_GIVEN_UP}))"
)


@dataclass(frozen=True)
class FollowedBranch:
    """A branch of a repository. `failures`: how often in a row it could not be read."""

    tenant_id: UUID
    deployment_id: UUID
    url: str
    branch: str
    failures: int


@dataclass(frozen=True)
class MovedBranch:
    """A branch that is at another commit than the newest revision of its deployment."""

    tenant_id: UUID
    deployment_id: UUID
    head: str


async def listeners_of_due_branches(connection: Connection, ended: Collection[str]) -> list[UUID]:
    """Of every workspace. `ended`: statuses of revisions whose rollout is over, here as below."""
    cursor = await connection.execute(
        f"SELECT DISTINCT d.listener_id{_FOLLOWED}{_DUE}".encode(), _statuses(ended)
    )
    return [row["listener_id"] for row in await cursor.fetchall()]


async def due_branches(
    connection: Connection, listener_id: UUID, ended: Collection[str], limit: int
) -> list[FollowedBranch]:
    """Those that one listener has to look at, the longest unseen first."""
    cursor = await connection.execute(
        "SELECT d.tenant_id, d.id AS deployment_id, d.source_config->>'repo_url' AS url,"
        " coalesce(d.source_config->>'repo_branch', d.source_revision_config->>'repo_ref') AS branch,"
        " CASE WHEN d.updated_at > f.looked_at THEN 0 ELSE coalesce(f.failures, 0) END AS failures"
        f"{_FOLLOWED}{_DUE} AND d.listener_id = %(listener_id)s"
        " ORDER BY f.looked_at NULLS FIRST LIMIT %(limit)s".encode(),
        {**_statuses(ended), "listener_id": listener_id, "limit": limit},
    )
    return [FollowedBranch(**row) for row in await cursor.fetchall()]


async def note_head(connection: Connection, branch: FollowedBranch, head: str) -> None:
    """Where a branch is now."""
    await _note(connection, branch, head, None, 0, 0.0)


async def note_problem(
    connection: Connection, branch: FollowedBranch, problem: str, wait_seconds: float
) -> None:
    """Why a branch could not be read, and how long to leave it alone."""
    await _note(connection, branch, None, problem, branch.failures + 1, wait_seconds)


async def _note(
    connection: Connection,
    branch: FollowedBranch,
    head: str | None,
    problem: str | None,
    failures: int,
    wait_seconds: float,
) -> None:
    await connection.execute(
        "INSERT INTO followed_branches (deployment_id, tenant_id, head, problem, failures, next_look_at)"
        " SELECT id, tenant_id, %(head)s, %(problem)s, %(failures)s, now() + %(wait)s * interval '1 s'"
        " FROM deployments WHERE id = %(deployment_id)s AND tenant_id = %(tenant_id)s"
        " ON CONFLICT (deployment_id) DO UPDATE SET head = excluded.head,"
        " problem = excluded.problem, failures = excluded.failures, next_look_at = excluded.next_look_at,"
        " looked_at = now()",
        {
            "head": head,
            "problem": problem,
            "failures": failures,
            "wait": wait_seconds,
            "deployment_id": branch.deployment_id,
            "tenant_id": branch.tenant_id,
        },
    )


async def moved_branches(connection: Connection, ended: Collection[str], limit: int) -> list[MovedBranch]:
    """Of every workspace; seen since their deployment was last changed, so that no old look counts."""
    cursor = await connection.execute(
        f"SELECT d.tenant_id, d.id AS deployment_id, f.head{_FOLLOWED} AND f.looked_at > d.updated_at"
        " AND f.head IS NOT NULL AND f.head IS DISTINCT FROM r.source_revision_config->>'repo_commit_sha'"
        " ORDER BY f.looked_at LIMIT %(limit)s".encode(),
        {**_statuses(ended), "limit": limit},
    )
    return [MovedBranch(**row) for row in await cursor.fetchall()]


def _statuses(ended: Collection[str]) -> dict[str, list[str]]:
    return {"ended": [str(status) for status in ended]}
