"""Where `langgraph deploy` sends people to look at a deployment: its page in the Temporal UI."""

from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import RedirectResponse

from api.services import CurrentServices
from workflows.messages import names

router = APIRouter(include_in_schema=False)


@router.get("/o/{tenant_id}/host/deployments/{deployment_id}")
async def dashboard(services: CurrentServices, tenant_id: UUID, deployment_id: UUID) -> RedirectResponse:
    """The link says nothing that its caller did not know; the Temporal UI is for operators."""
    workflow_id = quote(names.rollout_workflow_id(str(deployment_id)), safe="")
    return RedirectResponse(f"{services.settings.temporal_ui}/namespaces/default/workflows/{workflow_id}")
