from __future__ import annotations

from typing import Literal

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import ResponseModel


class ToolResultView(ResponseModel):
    """The whole result of a tool use, and what prompts say of it."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the event that recorded the outcome."""
    call: str
    """The call that requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    outcome: str | None
    """The outcome; null until the tool returns."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """The text that prompts contain."""
    treatment: Literal["kept", "condensed"]
    """Whether prompts contain all of the result."""
    digest: Digest | None
    """The digest of the whole result; null when there is none."""
    characters: int
    """The length of the whole result."""
    result: str | None
    """The whole result, which has that digest."""
