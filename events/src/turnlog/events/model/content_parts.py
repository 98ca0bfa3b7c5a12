"""Parts of a content that are no text: a picture, a recording or a file.

An event has a part by the digest of its bytes, which the media store holds once. What a prompt
needs to know of them, such as the size of a picture, is recorded with the part, so that assembling
a prompt reads no bytes.
"""

from __future__ import annotations

from typing import Final, Literal

from turnlog.events.content import Digest, Words
from turnlog.events.event_model import EventModel

MediaKind = Literal["image", "audio", "file"]
"""What a model is sent a part as."""

MAX_MEDIA_BYTES: Final = 25 * 1024 * 1024
"""Bytes of the largest picture, recording or file, where an installation says nothing else."""

TEXT_TYPE: Final = "text/plain"
"""The media type of a file that is a text."""


class MediaPart(EventModel):
    """A part of a text whose bytes are in the media store."""

    kind: MediaKind
    """What a model is sent it as."""
    digest: Digest
    """SHA-256 of its bytes, by which the media store has them."""
    size: int
    """Number of bytes."""
    media_type: str
    """Its type, such as `image/png`."""
    name: Words | None = None
    """The name of the file; None if it has none."""
    at: int = 0
    """Where it stands in the text, in code points from its beginning."""
    width: int | None = None
    """Width of a picture in pixels; None if its bytes do not say."""
    height: int | None = None
    """Height of a picture in pixels; None if its bytes do not say."""
    pages: int | None = None
    """Pages of a document; None if its bytes do not say."""
    seconds: int | None = None
    """Length of a recording, rounded up; None if its bytes do not say."""
