"""Building a revision on the listener's host: from its source to an environment that can run it."""

import asyncio
import os
import secrets as random_secrets
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.archive import UnsafeArchiveError
from activities.compute.sandbox import ProcessSandbox
from activities.compute.temporary import TemporaryFolders
from activities.git import SourceError
from activities.heartbeats import heartbeats
from activities.package_installer import BuildPlace
from activities.project_config import ProjectConfig, ProjectConfigError, read_project_config
from activities.python_environment import PythonEnvironments, RevisionEnvironment
from activities.removal import remove_tree
from activities.revision_log import RevisionLog
from activities.source import RepositorySource, Source, UploadedSource
from activities.subprocesses import ToolFailedError, run_tool
from settings import Settings
from storage.database import Database
from storage.objects import ObjectStore
from storage.revisions import Revision, advance_revision, get_revision, keep_build, note_commit
from storage.secrets import SecretBox
from workflows.messages.rollout import (
    BUILD_REVISION,
    BuildRevision,
    RevisionRef,
    RevisionStatus,
    StepResult,
    predecessors,
)

log = structlog.get_logger()

_LONGEST_REASON = 4_000


class BuildActivities:
    """Builds of one listener, under `folder`. Failures that the user has to correct are returned, not raised."""

    def __init__(
        self,
        database: Database,
        secrets: SecretBox,
        objects: ObjectStore,
        settings: Settings,
        folder: Path,
        sandbox: ProcessSandbox,
        temporary: TemporaryFolders,
        environments: PythonEnvironments,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._settings = settings
        self._sandbox = sandbox
        self._temporary = temporary
        self._sources: dict[str, Source] = {
            "internal_source": UploadedSource(database, objects, settings),
            "github": RepositorySource(settings, sandbox),
        }
        self._folder = folder.resolve()
        self._environments = environments

    @activity.defn(name=BUILD_REVISION)
    async def build(self, build: BuildRevision) -> StepResult:
        """Fetch, unpack, check, install. Each attempt works in a folder of its own; the one that ends counts."""
        ref = build.revision
        revision = await self._begin(ref)
        folder = self._folder / "revisions" / ref.revision_id / random_secrets.token_hex(4)
        secrets = self._secrets.decrypt(revision.secrets).values() if revision.secrets else []
        async with heartbeats(), RevisionLog(self._database, ref, "build", secrets) as output:
            try:
                async with asyncio.timeout(build.limit_seconds):
                    made = await self._make(revision, folder, output)
            except (UnsafeArchiveError, ProjectConfigError, ToolFailedError, SourceError) as error:
                failure = str(error)
            except TimeoutError:
                failure = f"The build did not end within {build.limit_seconds:g} s."
            except BaseException:
                await asyncio.to_thread(remove_tree, folder)
                raise
            else:
                if not await self._keep(ref, made):
                    await asyncio.to_thread(remove_tree, folder)
                output.write("Build finished.")
                return StepResult()
            await asyncio.to_thread(remove_tree, folder)
            output.write(failure, "ERROR")
            return StepResult(output.masked(failure)[:_LONGEST_REASON])

    async def _make(self, revision: Revision, folder: Path, output: RevisionLog) -> dict[str, Any]:
        """The build's record, as it is stored with the revision."""
        async with self._temporary.folder() as temporary:
            workspace = str(revision.tenant_id)
            place = BuildPlace(
                workspace=workspace,
                project=folder / "project",
                environment=folder / "environment",
                home=folder / "home",
                temporary=temporary,
                cache=self._folder / "caches" / workspace,
                on_line=output.write,
            )
            for made in (place.project, place.home):
                made.mkdir(parents=True)
            return await self._make_in(revision, folder, place, output)

    async def _make_in(
        self, revision: Revision, folder: Path, place: BuildPlace, output: RevisionLog
    ) -> dict[str, Any]:
        commit = await self._sources[revision.source].fetch(revision, place.project, output)
        if commit:
            # Also if the build fails: nobody has to look at this commit again.
            async with self._database.connection() as connection:
                await note_commit(connection, revision.tenant_id, revision.id, commit)
        config_path = revision.source_revision_config.get("langgraph_config_path", "langgraph.json")
        config = await asyncio.to_thread(read_project_config, place.project, config_path)
        for key in config.ignored:
            output.write(f"Key `{key}` of {config_path} has no meaning here and is ignored.", "WARNING")
        environment = await self._environments.prepare(config, place)
        await self._run_commands(revision, config, environment, place)
        return {
            "folder": str(folder),
            "config": str(config.path),
            "python": str(environment.python),
            "commit": commit,
            # Read as they were before any code of the project ran: what a worker may read must not be its own choice.
            "readable": [str(path) for path in environment.readable],
        }

    async def _run_commands(
        self, revision: Revision, config: ProjectConfig, environment: RevisionEnvironment, place: BuildPlace
    ) -> None:
        """The project's own commands, which see its environment and none of its secrets."""
        tools = place.environment / "bin"
        variables = {
            **place.variables(),
            "VIRTUAL_ENV": str(place.environment),
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        policy = self._sandbox.policy(read=environment.readable, write=place.changeable())
        for key, cwd in (("install_command", place.project), ("build_command", config.path.parent)):
            command = revision.source_config.get(key)
            if not command:
                continue
            if not self._settings.trust_project_builds:
                raise ProjectConfigError(f"`{key}` is switched off in this installation.")
            place.open_cache()
            place.on_line(f"$ {command}")
            await run_tool(
                ["/bin/sh", "-c", command],
                cwd=cwd,
                environment=variables,
                on_line=place.on_line,
                policy=policy,
            )

    async def _begin(self, ref: RevisionRef) -> Revision:
        """The revision, at BUILDING.

        Raises:
            ApplicationError: not to be retried: it is gone.
        """
        tenant_id, revision_id = UUID(ref.tenant_id), UUID(ref.revision_id)
        async with self._database.connection() as connection:
            status = RevisionStatus.BUILDING
            await advance_revision(connection, tenant_id, revision_id, status, None, predecessors(status))
            revision = await get_revision(connection, tenant_id, UUID(ref.deployment_id), revision_id)
        if revision is None:
            raise ApplicationError("The revision is gone.", type="RevisionGone", non_retryable=True)
        return revision

    async def _keep(self, ref: RevisionRef, made: dict[str, Any]) -> bool:
        async with self._database.connection() as connection:
            return await keep_build(
                connection, UUID(ref.tenant_id), UUID(ref.revision_id), made, RevisionStatus.BUILDING
            )
