"""Links with which readers rate a run, at its end (agent server contract §4, event `feedback`)."""

from collections.abc import Collection
from uuid import uuid5

from psycopg.rows import DictRow

from api.agent_server.streams.classic import ENDED
from api.services import Services
from storage.feedback_tokens import lasting_feedback_tokens
from storage.scope import DeploymentScope

_VALID_SECONDS = 3 * 3_600


async def rating_links(
    services: Services, scope: DeploymentScope, row: DictRow, keys: Collection[str]
) -> dict[str, str]:
    """{key: url} where `row` is the end of a run that asked for it; nothing elsewhere.

    Each link ends in a UUID, as SDKs want it, and is good for one to three hours. What is given with the links of one
    run and key is one record, so that a link, however often it is used, cannot fill the store.
    """
    if not keys or row["event"] != ENDED:
        return {}
    run_id = row["run_id"]
    async with services.database.transaction() as connection:
        tokens = await lasting_feedback_tokens(
            connection, scope.tenant_id, run_id, {key: uuid5(run_id, key) for key in keys}, _VALID_SECONDS
        )
    address = f"{services.settings.api_url}/api/v1/feedback/tokens"
    return {key: f"{address}/{tokens[key]}" for key in keys}
