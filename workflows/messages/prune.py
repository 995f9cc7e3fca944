"""Messages of the PruneWorkflow: builds that nobody will start again."""

from dataclasses import dataclass

PRUNE_WORKFLOW = "prune"
PRUNE_SCHEDULE = "prune"
FIND_BUILDERS = "find_builders"
PRUNE_BUILDS = "prune_builds"


@dataclass(frozen=True)
class Prune:
    """On every listener, each for the folder of its own."""


@dataclass(frozen=True)
class PruneBuilds:
    listener_id: str


@dataclass(frozen=True)
class Pruned:
    """What was removed from the listeners' hosts."""

    builds: int = 0
    environments: int = 0
