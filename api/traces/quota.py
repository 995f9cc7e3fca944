"""How much each workspace may send to this process, so that one does not take it all (trace contract §5.4)."""

import math
import time
from uuid import UUID

from api.errors import TooManyRequestsError

# A pause saves up so much; a burst of that length passes.
_SAVED_SECONDS = 10.0
_MAX_RETRY_AFTER_SECONDS = 60
_MAX_WORKSPACES = 10_000


class IngestQuota:
    """Bytes per second for each workspace; None for no limit.

    A request is taken as long as something is left, however large it is; what it overdraws, the next ones wait for.
    """

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._left: dict[UUID, tuple[float, float]] = {}  # bytes, and when that was

    def check(self, tenant_id: UUID) -> None:
        """Raises TooManyRequestsError (429), with the time to wait, if a workspace has nothing left."""
        left = self._left_now(tenant_id)
        if self._rate and left <= 0:
            seconds = min(math.floor(-left / self._rate) + 1, _MAX_RETRY_AFTER_SECONDS)
            raise TooManyRequestsError(
                f"This workspace sends more than {self._rate} bytes of traces per second; nothing was stored,"
                " try again later.",
                headers={"Retry-After": str(seconds)},
            )

    def spend(self, tenant_id: UUID, size_bytes: int) -> None:
        """Count what a workspace sent."""
        if self._rate:
            if len(self._left) >= _MAX_WORKSPACES:
                self._left.clear()
            self._left[tenant_id] = (self._left_now(tenant_id) - size_bytes, time.monotonic())

    def _left_now(self, tenant_id: UUID) -> float:
        if not self._rate:
            return 0.0
        most = self._rate * _SAVED_SECONDS
        left, at = self._left.get(tenant_id, (most, 0.0))
        return min(left + (time.monotonic() - at) * self._rate, most)
