"""The page at `/`: sessions in a browser, from files that come with the package.

It is static and asks nothing but the public routes, so it can do no more than any other client.
Its policy lets a browser load, run and call only what comes from here; nothing is fetched from
elsewhere, and no text of a session can become markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

STATIC: Final = Path(__file__).parent / "static"
MEDIA: Final[Mapping[str, str]] = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@router.get("/")
async def page(request: Request) -> Response:
    """Give the page."""
    return _file(request, "index.html")


@router.get("/page/{name}")
async def piece(request: Request, name: str) -> Response:
    """Give a file that the page is made of."""
    if name not in {file.name for file in STATIC.iterdir()}:
        raise HTTPException(404, "the page has no such file")
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    content = (STATIC / name).read_bytes()
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA[name.rpartition(".")[2]])
