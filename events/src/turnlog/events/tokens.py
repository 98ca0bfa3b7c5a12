"""What travels on TOKENS: how a reply is watched while it is being said.

Tokens are not history. They live in memory for a short while; the reply event is what was
said. The closing message of an attempt says how long the text is and what its digest is, so
that a turn whose worker died can be completed from here, or not at all.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from turnlog.events.call import Usage
from turnlog.events.content import Digest
from turnlog.events.fact import Fact
from turnlog.events.turn import Finish


class Token(Fact):
    """A piece of a reply."""

    kind: Literal["token"] = "token"
    call: str
    """The call."""
    attempt: int
    """The attempt; lower ones than the highest seen are ignored."""
    offset: int
    """Where the piece begins in the reply, in code points."""
    text: str
    """The piece."""


Doing = Literal["summarise", "plan", "act", "tool", "reply"]
"""What a worker can be at: a call of a turn, or a tool that one asked for."""


class AttemptAlive(Fact):
    """The worker of this attempt is still there; watchers see a keep-alive."""

    kind: Literal["attempt-alive"] = "attempt-alive"
    call: str
    """The call."""
    attempt: int
    """The attempt."""
    doing: Doing | None = None
    """What it begins to do, in a turn of several calls."""
    tool: str | None = None
    """The tool that it runs."""


class AttemptReset(Fact):
    """All text of earlier attempts is void; this attempt begins at offset 0."""

    kind: Literal["attempt-reset"] = "attempt-reset"
    call: str
    """The call."""
    attempt: int
    """The attempt that begins."""


class ToolRequest(Fact):
    """A tool that an answer asked for."""

    id: str
    """The provider's name for this request."""
    tool: str
    """The tool it named."""
    arguments: str
    """Its arguments as the model wrote them."""


class AttemptClosed(Fact):
    """The last message of an attempt: what the whole of it must add up to.

    It is sent for an answer that may be said; one that is withheld has none.
    """

    kind: Literal["attempt-closed"] = "attempt-closed"
    call: str
    """The call."""
    attempt: int
    """The attempt."""
    length: int
    """Length of the whole text in code points."""
    digest: Digest
    """Digest of the whole text."""
    finish: Finish
    """Why the model stopped."""
    usage: Usage
    """Tokens it took."""
    first_token: int | None = None
    """Milliseconds to the first text."""
    total: int
    """Milliseconds to the end."""
    tools: tuple[ToolRequest, ...] = ()
    """Tools the answer asked for."""


TokenEvent = Annotated[
    Token | AttemptAlive | AttemptReset | AttemptClosed, Field(discriminator="kind")
]
TOKEN_EVENT: TypeAdapter[TokenEvent] = TypeAdapter(TokenEvent)
"""Reads and writes the JSON of a token event."""
