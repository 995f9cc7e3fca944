"""What every endpoint may use: built once per process, handed to endpoints by FastAPI."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from api.gateway import TemporalGateway
from api.key_cache import KeyCache
from api.notifications import Notifications
from api.submissions import Submissions
from api.traces.gate import IngestGate
from settings import Settings
from storage.database import Database
from storage.objects import ObjectStore
from storage.secrets import SecretBox

if TYPE_CHECKING:
    from api.traces.single_runs import SingleRuns


@dataclass(frozen=True)
class Services:
    settings: Settings
    database: Database
    gateway: TemporalGateway
    secrets: SecretBox
    keys: KeyCache
    notifications: Notifications
    objects: ObjectStore
    submissions: Submissions
    ingest_gate: IngestGate
    single_runs: "SingleRuns"


def services_of(request: Request) -> Services:
    return cast(Services, request.app.state.services)


CurrentServices = Annotated[Services, Depends(services_of)]
