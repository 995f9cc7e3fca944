"""Each embedded server is replaced by naming another one; here those of another stack, whose own parts rest."""

import pytest

from tests.stacks import Stack, running_stack

OURS = {"api", "worker-platform", "worker-listener"}


@pytest.mark.timeout(500)
def test_named_servers_are_used_and_not_started(killable_stack: Stack) -> None:
    provider = killable_stack
    settings = {
        "TEMPORAL_ADDRESS": provider.temporal_address,
        "DATABASE_URL": provider.database_url,
        "SLIPWAY_S3_ENDPOINT_URL": provider.s3_endpoint_url,
        "SLIPWAY_S3_ACCESS_KEY_ID": provider.s3_access_key_id,
        "SLIPWAY_S3_SECRET_ACCESS_KEY": provider.s3_secret_access_key,
    }
    for name in OURS:
        provider.stop(name)
    try:
        with running_stack(**settings) as stack:
            status = stack.status()
            assert status["ready"] is True
            assert {process["name"] for process in status["processes"]} == OURS
            assert status["addresses"]["temporal_address"] == provider.temporal_address
            assert stack.tenant_id == provider.tenant_id, "the first workspace is that of the database"
            assert stack.api_key != provider.api_key, "each home has a key of its own"
    finally:
        for name in OURS:
            provider.start(name)
