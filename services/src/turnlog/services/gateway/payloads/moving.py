from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.events.content import Digest
from turnlog.projections.store.pins import PinKind
from turnlog.services.gateway.payloads.closed import ResponseModel, RequestModel

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"


class MoveBlueprintRequest(RequestModel):
    """Moves a session to the present version of its blueprint's files."""

    digest: Annotated[str, Field(pattern=DIGEST_PATTERN)] | None = None
    """The expected digest of the blueprint, which must be the present one; see `/v1/blueprints`."""


class BlueprintMoveResult(ResponseModel):
    """The blueprint that a session uses after a move."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the move; the session's last sequence when nothing changed."""
    moved: bool
    """Whether anything changed."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The version number set by its author."""
    digest: Digest
    """The digest of its structure."""


class PinnedTextView(ResponseModel):
    """A text that open sessions are pinned to."""

    blueprint: str
    """The blueprint of the sessions."""
    what: PinKind
    """The kind of text: the blueprint, a cartridge, a memory policy or a prompt file."""
    version: int | None
    """The version of a blueprint."""
    provider: str | None
    """The provider for which a prompt file was resolved."""
    layer: str | None
    """The layer for which a prompt file was resolved."""
    path: str | None
    """The path of the prompt file."""
    digest: Digest
    """The digest of the text; `/v1/sessions?open=true&digest=` lists the sessions."""
    sessions: int
    """The number of open sessions that are pinned to it."""
    current: bool | None
    """Whether the files have the same content now; null when that depends on the session."""


class PinnedTextList(ResponseModel):
    """The texts that open sessions are pinned to."""

    pins: tuple[PinnedTextView, ...]
    """The texts, by blueprint and kind."""
