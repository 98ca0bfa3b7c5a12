"""Routes for media: an upload whose body is the bytes themselves, and the bytes by digest."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.turn_payloads import StoredBlobView
from turnlog.events.content import DIGEST_PATTERN, SHA256_PATTERN
from turnlog.events.errors import Refused
from turnlog.events.model.content_parts import TEXT_TYPE
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.media.media_types import MEDIA_TYPES, UNSPECIFIED_TYPE
from turnlog.services.media.media_use_cases import MediaUseCases, UploadAnnouncement

router = APIRouter()

BINARY: Final[dict[str, object]] = {"schema": {"type": "string", "format": "binary"}}

UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The bytes.",
        "content": dict.fromkeys((*MEDIA_TYPES, UNSPECIFIED_TYPE), BINARY),
    }
}

DOWNLOAD: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The bytes", "content": dict.fromkeys(MEDIA_TYPES, BINARY)}
}

SHOWN_BY_BROWSERS: Final = frozenset(each for each in MEDIA_TYPES if each.startswith("image/"))
"""Types that a browser shows; it saves others as a file."""

BLOB_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "private, max-age=31536000, immutable",
}


async def get_media(request: Request) -> MediaUseCases:
    """Return the use cases of this application."""
    media: MediaUseCases = request.app.state.use_cases.media
    return media


Media = Annotated[MediaUseCases, Depends(get_media)]

BlobPath = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        description="The digest of the bytes, `sha256:` or `hmac-sha256:` and 64 hex.",
    ),
]

AnnouncedDigest = Annotated[
    str | None,
    Query(pattern=SHA256_PATTERN, description="The digest that the bytes must have"),
]


UploadOffset = Annotated[
    str | None,
    Header(
        alias="Upload-Offset",
        pattern="^[0-9]{1,12}$",
        description="How many bytes of the upload an earlier request has brought",
    ),
]


@router.post(
    api_paths.BLOBS,
    status_code=201,
    openapi_extra=UPLOAD,
    summary="Upload a picture, a recording or a file",
)
async def upload_blob(
    request: Request,
    tenant: RequestTenant,
    media: Media,
    response: Response,
    digest: AnnouncedDigest = None,
    offset: UploadOffset = None,
) -> StoredBlobView:
    """Store the bytes of the body under their digest; storing them again has no effect.

    `Content-Type` is the type of the bytes, or `application/octet-stream`. An upload whose digest
    was announced and whose connection broke goes on at the `Upload-Offset` that `HEAD` returns.
    """
    length = request.headers.get("content-length")
    announced = UploadAnnouncement(
        media_type=request.headers.get("content-type"),
        size=int(length) if length else None,
        digest=digest,
        offset=int(offset or 0),
    )
    stored = await media.upload_media(tenant, request.stream(), announced)
    response.headers["Location"] = format_path(api_paths.BLOB, digest=stored.digest)
    return stored


@router.get(
    api_paths.BLOB,
    response_class=StreamingResponse,
    responses=DOWNLOAD,
    summary="Download a picture, a recording or a file",
)
async def download_blob(
    digest: BlobPath, request: Request, tenant: RequestTenant, media: Media
) -> Response:
    """Return the bytes; they never change, so they may be cached for good."""
    download = await media.open_media(tenant, digest)
    headers = _build_headers(download.item)
    if headers["etag"] in request.headers.get("if-none-match", ""):
        await download.chunks.aclose()
        return Response(status_code=304, headers=headers)
    return StreamingResponse(
        download.chunks, headers=headers | {"content-length": str(download.item.size)}
    )


@router.head(api_paths.BLOB, include_in_schema=False)
async def find_blob(digest: BlobPath, tenant: RequestTenant, media: Media) -> Response:
    """Return the headers alone: whether all bytes are stored, and how many they are.

    If an upload broke off, the 404 has the number of its bytes that are here.
    """
    try:
        item = await media.find_media(tenant, digest)
    except Refused:
        if not (offset := media.partial_uploads.get_offset((tenant, digest))):
            raise
        return Response(status_code=404, headers={"upload-offset": str(offset)})
    return Response(headers=_build_headers(item) | {"content-length": str(item.size)})


def _build_headers(item: StoredBlobView) -> dict[str, str]:
    is_shown = item.media_type in SHOWN_BY_BROWSERS
    charset = "; charset=utf-8" if item.media_type == TEXT_TYPE else ""
    return {
        **BLOB_HEADERS,
        "content-type": item.media_type + charset,
        "content-disposition": "inline" if is_shown else "attachment",
        "etag": f'"{item.digest}"',
    }
