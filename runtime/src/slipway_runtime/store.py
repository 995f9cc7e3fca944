"""The store inside graphs: langgraph's own, held to this deployment (docs/architecture/store.md)."""

import importlib.util
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)
from langgraph.store.postgres import AsyncPostgresStore
from psycopg import AsyncConnection

from slipway_runtime.graphs import import_object
from slipway_runtime.options import ProjectOptions
from slipway_runtime.pools import Pool
from slipway_runtime.project import Project, ProjectError
from slipway_runtime.saver import retried

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class DeploymentStore(AsyncPostgresStore):
    """Every namespace is stored below the deployment's id, which neither callers nor results ever show.

    One per run: a call that PostgreSQL refuses fails its own run, not those whose calls were batched with it.
    """

    def __init__(
        self, pool: Pool, deployment_id: str, index: Any = None, ttl: TTLConfig | None = None
    ) -> None:
        super().__init__(pool, index=index, ttl=ttl)
        self._root = deployment_id

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        below = [_below(self._root, op) for op in ops]
        results = await retried(lambda: super(DeploymentStore, self).abatch(below))
        return [_shown(result) for result in results]

    def _get_filter_condition(self, key: str, op: str, value: Any) -> tuple[str, list[Any]]:
        """Numbers compare as numbers: langgraph compares their texts, for which 9 is more than 10."""
        if op not in _COMPARISONS or isinstance(value, bool) or not isinstance(value, (int, float)):
            return super()._get_filter_condition(key, op, value)
        condition = f"(jsonb_typeof(value->%s) = 'number' AND value->%s {_COMPARISONS[op]} %s::jsonb)"
        return condition, [key, key, str(value)]


class Stores:
    """Makes stores for one revision."""

    def __init__(self, deployment_id: str, project: Project) -> None:
        self._deployment_id = deployment_id
        self._project = project

    def open(self, pool: Pool) -> DeploymentStore:
        """A store for one run. Only within the user's loop, to which `pool` belongs.

        Raises:
            ProjectError: `store.index.embed` names no embedding.
        """
        return DeploymentStore(pool, self._deployment_id, self._index(), self._ttl)

    async def prepare(self, database_url: str) -> None:
        """Load the embedding, and forget vectors of another size: those of an earlier revision's embedding.

        Raises:
            ProjectError: `store.index.embed` names no embedding, or the database has no pgvector.
        """
        index = self._index()
        if index is None:
            return
        async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
            cursor = await connection.execute("SELECT to_regclass('store_vectors') IS NOT NULL")
            if await cursor.fetchone() != (True,):
                raise ProjectError("`store.index` needs the extension pgvector, which this database lacks.")
            await connection.execute(
                "DELETE FROM store_vectors WHERE vector_dims(embedding) <> %s", (index["dims"],)
            )

    @property
    def _options(self) -> ProjectOptions:
        return self._project.options

    def _index(self) -> dict[str, Any] | None:
        index = self._options.store.get("index")
        if not index:
            return None
        return {
            "dims": index["dims"],
            "embed": self._embeddings,
            "fields": index.get("fields") or ["$"],
            "ann_index_config": {"kind": "flat"},
        }

    @cached_property
    def _embeddings(self) -> Embeddings:
        embed = self._options.store["index"]["embed"]
        try:
            if _is_model_name(embed):
                return ensure_embeddings(embed)
            module, _, name = embed.rpartition(":")
            return ensure_embeddings(import_object("store.index.embed", module, name, self._project.folder))
        except (ImportError, ValueError, TypeError) as error:
            raise ProjectError(f"`store.index.embed` {embed!r} cannot be used: {error}") from error

    @property
    def _ttl(self) -> TTLConfig:
        ttl: Mapping[str, Any] = self._options.store.get("ttl") or {}
        return TTLConfig(
            refresh_on_read=ttl.get("refresh_on_read", True),
            default_ttl=ttl.get("default_ttl"),
            omit_expired=True,
        )


def _is_model_name(embed: str) -> bool:
    """`openai:text-embedding-3-small`, and not `./embed.py:embed` or `package.module:embed`."""
    module = embed.partition(":")[0]
    if "/" in module or module.endswith(".py"):
        return False
    try:
        return importlib.util.find_spec(module) is None or "." not in module
    except (ImportError, ValueError):
        return True


def _below(root: str, op: Op) -> Op:
    if isinstance(op, (GetOp, PutOp)):
        return op._replace(namespace=(root, *op.namespace))
    if isinstance(op, SearchOp):
        return op._replace(namespace_prefix=(root, *op.namespace_prefix))
    assert isinstance(op, ListNamespacesOp)
    conditions = list(op.match_conditions or ())
    prefixes = [item.path for item in conditions if item.match_type == "prefix"] or [()]
    return op._replace(
        match_conditions=(
            *(MatchCondition("prefix", (root, *path)) for path in prefixes),
            *(item for item in conditions if item.match_type != "prefix"),
        ),
        max_depth=None if op.max_depth is None else op.max_depth + 1,
    )


def _shown(result: Result) -> Result:
    if isinstance(result, Item):
        result.namespace = result.namespace[1:]
        return result
    if isinstance(result, list):
        return [_shown_part(part) for part in result]
    return result


def _shown_part(part: Any) -> Any:
    if isinstance(part, SearchItem):
        part.namespace = part.namespace[1:]
        return part
    return tuple(part[1:])
