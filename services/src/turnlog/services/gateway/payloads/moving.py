"""What is asked and answered about versions: who is pinned to which, and who is moved."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.events.content import Digest
from turnlog.projections.store.pins import What
from turnlog.services.gateway.payloads.closed import Answer, Form

DIGEST = r"^sha256:[0-9a-f]{64}$"


class MoveForm(Form):
    """Moves a session to what the files of its blueprint say now."""

    digest: Annotated[str, Field(pattern=DIGEST)] | None = None
    """Only to this one; see `/v1/blueprints`."""


class Moved(Answer):
    """What a session runs by from here on."""

    session: str
    """The session."""
    sequence: int
    """Of the event that moved it; of its last one, where nothing was to be done."""
    moved: bool
    """Whether anything changed."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """Its author's version."""
    digest: Digest
    """Digest of its structure."""


class PinView(Answer):
    """A text that open sessions are pinned to."""

    blueprint: str
    """The blueprint they are made from."""
    what: What
    """The blueprint itself, a cartridge, a memory policy, or a prompt file."""
    version: int | None
    """Of a blueprint."""
    provider: str | None
    """Of a prompt file: for which it was resolved."""
    layer: str | None
    """And for which layer."""
    path: str | None
    """And where it was found."""
    digest: Digest
    """Digest of the text; `/v1/sessions?open=true&digest=` lists the sessions."""
    sessions: int
    """How many open sessions there are of it."""
    current: bool | None
    """Whether the files say the same now; null where that depends on the session."""


class PinList(Answer):
    """What open sessions are pinned to."""

    pins: tuple[PinView, ...]
    """By blueprint, then by what it is."""
