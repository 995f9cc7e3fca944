"""The interactive API reference, from files of this installation: no other host is asked."""

from importlib.resources import files

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from api.errors import NotFoundError

_ASSETS = {
    "swagger-ui-bundle.js": "application/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}


def docs_router(title: str) -> APIRouter:
    """GET /docs, which reads `openapi.json` beside it. Addresses are relative, so it works below any prefix."""
    router = APIRouter(include_in_schema=False)
    page = get_swagger_ui_html(
        openapi_url="./openapi.json",
        title=title,
        swagger_js_url="./docs/assets/swagger-ui-bundle.js",
        swagger_css_url="./docs/assets/swagger-ui.css",
        swagger_favicon_url="./docs/assets/favicon-32x32.png",
        swagger_ui_parameters={"persistAuthorization": True, "filter": True, "displayRequestDuration": True},
    )

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return page

    @router.get("/docs/assets/{name}")
    async def asset(name: str) -> Response:
        if name not in _ASSETS:
            raise NotFoundError("Not Found")
        content = files("fastapi_swagger.resources").joinpath(name).read_bytes()
        return Response(content, media_type=_ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})

    return router
