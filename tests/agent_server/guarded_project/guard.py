"""Who may use this deployment: holders of `Bearer token-<name>`."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()
CALLS = 0


@auth.authenticate
async def authenticate(authorization: str | None, path: str, method: str) -> dict[str, Any]:
    global CALLS
    CALLS += 1
    if authorization == "Bearer broken":
        raise RuntimeError("secret internals")
    if not authorization or not authorization.startswith("Bearer token-"):
        raise Auth.exceptions.HTTPException(status_code=401, detail="Show a token.")
    name = authorization.removeprefix("Bearer token-")
    if name == "banned":
        raise Auth.exceptions.HTTPException(status_code=403, detail=f"No {method} for you on {path}.")
    return {"identity": name, "permissions": ["read"], "calls": CALLS}


@auth.on
async def own(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any]:
    """Everybody sees what is theirs."""
    owner = {"owner": ctx.user.identity}
    value["metadata"] = {**(value.get("metadata") or {}), **owner}
    return owner


@auth.on.threads.delete
async def keep(ctx: Auth.types.AuthContext, value: Any) -> Any:
    return False if ctx.user.identity == "reader" else {"owner": ctx.user.identity}


@auth.on.store
async def own_namespace(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Everybody's items lie below their name; a reader has to say so, for all others it is put in front."""
    if ctx.user.identity == "reader":
        assert value["namespace"][0] == ctx.user.identity
        return
    value["namespace"] = (ctx.user.identity, *(value["namespace"] or ()))


@auth.on.store.delete
async def filtered(ctx: Auth.types.AuthContext, value: Any) -> dict[str, Any]:
    """What nothing could apply: items have no metadata."""
    return {"owner": ctx.user.identity}
