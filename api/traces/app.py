"""Every route of the trace store, under each address that SDKs build from LANGSMITH_ENDPOINT (contract §5.1)."""

from fastapi import APIRouter

from api.traces.attachments import router as attachments_router
from api.traces.comparisons import router as comparisons_router
from api.traces.dataset_files import router as dataset_files_router
from api.traces.dataset_splits import router as splits_router
from api.traces.dataset_versions import router as versions_router
from api.traces.datasets import router as datasets_router
from api.traces.examples import platform_router
from api.traces.examples import router as examples_router
from api.traces.experiments import router as experiments_router
from api.traces.feedback import router as feedback_router
from api.traces.feedback_links import router as feedback_links_router
from api.traces.feedback_tokens import router as feedback_tokens_router
from api.traces.info import router as info_router
from api.traces.ingest import router as ingest_router
from api.traces.not_offered import platform_router as platform_not_offered_router
from api.traces.not_offered import router as not_offered_router
from api.traces.not_offered import v2_router as v2_not_offered_router
from api.traces.otel import router as otel_router
from api.traces.projects import router as projects_router
from api.traces.public import router as public_router
from api.traces.public import v2_router as v2_public_router
from api.traces.run_groups import router as run_groups_router
from api.traces.run_stats import router as run_stats_router
from api.traces.runs import router as runs_router
from api.traces.sharing import router as sharing_router
from api.traces.sharing import v2_router as v2_sharing_router
from api.traces.v2.experiment_runs import router as v2_experiment_runs_router
from api.traces.v2.runs import router as v2_runs_router
from api.traces.v2.threads import router as v2_threads_router
from api.traces.v2.traces import router as v2_traces_router

DOCUMENTED_PREFIX = "/api/v1"
# Tried in this order: SDKs that are told the address of the installation send to its root.
PREFIXES = ("", DOCUMENTED_PREFIX, "/api")
_AREAS = (
    not_offered_router,  # first: some of its addresses look like an id
    ingest_router,  # nothing else is asked for as often
    info_router,
    otel_router,
    run_stats_router,
    run_groups_router,
    runs_router,
    projects_router,
    feedback_tokens_router,
    feedback_router,
    feedback_links_router,
    comparisons_router,
    datasets_router,
    versions_router,
    splits_router,
    dataset_files_router,
    sharing_router,
    public_router,
    examples_router,
    experiments_router,
    attachments_router,
)
_V2_AREAS = (
    v2_runs_router,
    v2_traces_router,
    v2_threads_router,
    v2_experiment_runs_router,
    v2_sharing_router,
    v2_public_router,
    v2_not_offered_router,
)
_PLATFORM_PREFIXES = ("/api/v1/platform", "/v1/platform", "/platform")


def traces_router() -> APIRouter:
    """The routes under `/api/v1`, and the same, undocumented, under `/api` and the root."""
    router = APIRouter()
    for prefix in PREFIXES:
        for area in _AREAS:
            router.include_router(area, prefix=prefix, include_in_schema=prefix == DOCUMENTED_PREFIX)
    for area in _V2_AREAS:
        router.include_router(area, prefix="/api/v2")
    for prefix in _PLATFORM_PREFIXES:
        for area in (platform_router, platform_not_offered_router):
            router.include_router(area, prefix=prefix, include_in_schema=prefix == _PLATFORM_PREFIXES[0])
    return router
