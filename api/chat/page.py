"""The page: its built files, and signing in."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from pydantic import BaseModel, Field

from api.chat.callers import holder_of_key
from api.chat.errors import ChatRoute
from api.chat.session import set_session, tenant_of_token
from api.errors import NotFoundError, UnauthorizedError
from api.services import CurrentServices

router = APIRouter(prefix="/chat", tags=["Chat"], include_in_schema=False, route_class=ChatRoute)

# Built from web/ and committed, so that no Node is needed to open the page; CI compares it with a fresh build.
BUILT = Path(__file__).parent / "built"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
# Names of assets hold a hash of their content.
_FOR_EVER = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}


class SignIn(BaseModel):
    key: str = Field(min_length=1, max_length=200)


@router.post("/session", status_code=204)
async def sign_in(body: SignIn, request: Request, services: CurrentServices) -> Response:
    """Exchange an API key for a session cookie; the key is not kept."""
    holder = await holder_of_key(services, body.key)
    if holder is None:
        raise UnauthorizedError("Invalid API key.")
    response = Response(status_code=204)
    set_session(response, services.secrets, holder.tenant.tenant_id, secure=request.url.scheme == "https")
    return response


@router.get("/assets/{name}")
async def asset(name: str) -> FileResponse:
    path = BUILT / "assets" / name
    if not path.is_file():
        await no_asset(name)
    return FileResponse(path, headers=_FOR_EVER)


@router.get("/assets/{name:path}")
async def no_asset(name: str) -> None:
    raise NotFoundError(f"The page has no file {name}.")


@router.get("/icon.svg")
async def icon() -> FileResponse:
    return FileResponse(BUILT / "icon.svg", headers=_HEADERS)


@router.get("")
@router.get("/{view:path}")
async def page(
    request: Request,
    services: CurrentServices,
    view: str = "",
    link: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """The page. With `link`, a token of `slipway chat-link`, it first becomes a session."""
    if link is None:
        return FileResponse(BUILT / "index.html", headers=_HEADERS)
    response = RedirectResponse("/chat", 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    tenant_id = tenant_of_token(services.secrets, "chat-link", link)
    if tenant_id:
        set_session(response, services.secrets, tenant_id, secure=request.url.scheme == "https")
    return response
