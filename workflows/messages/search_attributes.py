"""Search attributes of our workflows: one registry, registered by every start of the stack.

All are keywords. A workflow sets them with `SearchAttributeKey.for_keyword(TENANT)`; operators filter by them in
the Temporal UI.
"""

from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

TENANT = "SlipwayTenant"
DEPLOYMENT = "SlipwayDeployment"
REVISION = "SlipwayRevision"
STATUS = "SlipwayStatus"

KEYWORDS = (TENANT, DEPLOYMENT, REVISION, STATUS)


def keyword(name: str, value: str) -> SearchAttributeUpdate[str]:
    """Set one of `KEYWORDS` on the workflow that upserts this."""
    return SearchAttributeKey.for_keyword(name).value_set(str(value))
