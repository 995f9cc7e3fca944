"""`slipway demo`: the mission's flows against a running stack, with unmodified clients."""
