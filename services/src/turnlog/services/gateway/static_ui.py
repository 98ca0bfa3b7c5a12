"""The browser user interface at `/`, served from files of this package.

The files are static and use only the public routes, so the page has the rights of any other client.
The content security policy allows only files and requests of the same origin. The scripts insert
session text as text and never as markup.
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

STATIC_FOLDER: Final = Path(__file__).parent / "static"

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

STATIC_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@router.get("/")
async def serve_index(request: Request) -> Response:
    """Serve `index.html`."""
    return _create_file_response(request, "index.html")


@router.get("/page/{name:path}")
async def serve_static_file(request: Request, name: str) -> Response:
    """Serve one file of the user interface."""
    if name not in list_static_files():
        raise HTTPException(404, f"the user interface has no file {name!r}")
    return _create_file_response(request, name)


def list_static_files() -> frozenset[str]:
    """Return the paths of all files of the user interface, relative to their folder."""
    files = (path for path in STATIC_FOLDER.rglob("*") if path.is_file())
    return frozenset(path.relative_to(STATIC_FOLDER).as_posix() for path in files)


def _create_file_response(request: Request, name: str) -> Response:
    content = (STATIC_FOLDER / name).read_bytes()
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**STATIC_HEADERS, "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA_TYPES[name.rpartition(".")[2]])
