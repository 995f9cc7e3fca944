"""`slipway keys` and `slipway tenants` on the shared stack."""

import re
from uuid import UUID

import httpx

from tests.stacks import Stack, wait_until


def _accepted(stack: Stack, key: str) -> bool:
    response = httpx.get(
        f"{stack.api_url}/v2/deployments", headers={"X-Api-Key": key}, trust_env=False, timeout=30
    )
    assert response.status_code in (200, 401)
    return response.status_code == 200


def test_a_key_works_until_it_is_revoked(stack: Stack) -> None:
    tenant = stack.slipway("tenants", "create", "with a key", check=True).stdout.strip()
    UUID(tenant)
    key = stack.slipway("keys", "create", "for a test", "--tenant", tenant, check=True).stdout.strip()
    assert _accepted(stack, key)

    listed = stack.slipway("keys", "list", "--tenant", tenant, check=True).stdout
    assert key not in listed
    key_id = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", listed)[0]
    stack.slipway("keys", "revoke", key_id, "--tenant", tenant, check=True)
    wait_until(lambda: not _accepted(stack, key), 60, "the revoked key to be refused")
    again = stack.slipway("keys", "revoke", key_id, "--tenant", tenant)
    assert (again.returncode, key_id in again.stderr) == (1, True)


def test_a_key_for_an_unknown_workspace_is_refused(stack: Stack) -> None:
    result = stack.slipway("keys", "create", "x", "--tenant", "00000000-0000-4000-8000-00000000abcd")
    assert result.returncode != 0
    assert "There is no workspace" in result.stderr
