"""Responses about uploaded pictures, recordings and files."""

from __future__ import annotations

from turnlog.contract.payload_models import ResponseModel


class StoredBlobView(ResponseModel):
    """A picture, a recording or a file that is stored."""

    digest: str
    """SHA-256 of its bytes, by which a part of a turn names it."""
    size: int
    """Number of bytes."""
    media_type: str
    """What its bytes are, such as `image/png`."""
