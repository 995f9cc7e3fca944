"""Which workspaces may export (mission document: only the Plus and Enterprise plans)."""

from api.authentication import Caller
from api.errors import ForbiddenError

_PLANS = frozenset({"plus", "enterprise"})


def require_export_plan(caller: Caller) -> None:
    """
    Raises:
        ForbiddenError: the workspace's plan does not include data export.
    """
    if caller.tenant.plan not in _PLANS:
        raise ForbiddenError(
            f"Data export is part of the Plus and Enterprise plans; this workspace is on {caller.tenant.plan!r}."
        )
