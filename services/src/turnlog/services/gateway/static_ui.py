"""The browser user interface at `/`, served from files of this package.

The files are static and use only the public routes, so the page has the rights of any other client.
The content security policy allows only files and requests of the same origin. The scripts insert
session text as text and never as markup.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from turnlog.services.gateway.page_linking import link_scripts, link_styles
from turnlog.services.platform.concurrency import run_in_thread

router = APIRouter(include_in_schema=False)

INDEX: Final = "index.html"

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


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the user interface, as it is and compressed."""

    content: bytes
    compressed: bytes
    media_type: str
    digest: str


@router.get("/")
async def serve_index(request: Request) -> Response:
    """Serve `index.html`."""
    return _create_file_response(request, await _load_files(), INDEX)


@router.get("/page/{name:path}")
async def serve_static_file(request: Request, name: str) -> Response:
    """Serve one file of the user interface."""
    files = await _load_files()
    if name not in files:
        raise HTTPException(404, f"the user interface has no file {name!r}")
    return _create_file_response(request, files, name)


def read_sources() -> Mapping[str, str]:
    """Read the files that the user interface is written in, by path in their folder."""
    return {
        path.relative_to(STATIC_FOLDER).as_posix(): path.read_bytes().decode()
        for path in sorted(STATIC_FOLDER.rglob("*.*"))
    }


async def _load_files() -> Mapping[str, StaticFile]:
    """Return all files by name; the first time they are read and compressed, in a thread."""
    return await run_in_thread(_read_files)


# The files do not change while a process runs.
@cache
def _read_files() -> Mapping[str, StaticFile]:
    sources = read_sources()
    files = {
        INDEX: sources[INDEX],
        "icon.svg": sources["icon.svg"],
        "scripts.js": link_scripts(sources, "app/router.js"),
        "styles.css": link_styles(sources, "styles/styles.css"),
    }
    return {name: _build_file(name, text.encode()) for name, text in files.items()}


def _build_file(name: str, content: bytes) -> StaticFile:
    return StaticFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=MEDIA_TYPES[name.rpartition(".")[2]],
        digest=sha256(content).hexdigest()[:32],
    )


def _create_file_response(request: Request, files: Mapping[str, StaticFile], name: str) -> Response:
    file = files[name]
    is_compressed = "gzip" in request.headers.get("accept-encoding", "")
    # Each form of a file has a tag of its own, or a cache would take one for the other.
    etag = f'"{file.digest}{"-gzip" if is_compressed else ""}"'
    headers = {**STATIC_HEADERS, "vary": "accept-encoding", "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if is_compressed:
        headers["content-encoding"] = "gzip"
    content = file.compressed if is_compressed else file.content
    return Response(content, headers=headers, media_type=file.media_type)
