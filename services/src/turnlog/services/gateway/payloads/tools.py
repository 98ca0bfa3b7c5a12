"""What is answered about one use of a tool: what was asked, what came of it, and all that came."""

from __future__ import annotations

from typing import Literal

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import Answer


class ToolResultView(Answer):
    """What a tool gave, whole, and what prompts say of it."""

    session: str
    """The session."""
    sequence: int
    """Of the event that says what came of it."""
    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's name for the request."""
    tool: str
    """The tool."""
    arguments: str
    """Its arguments as the model wrote them."""
    outcome: str | None
    """What came of it; null as long as it has not come back."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """What prompts say of it."""
    treatment: Literal["kept", "condensed"]
    """Whether they say all of it."""
    digest: Digest | None
    """Of the whole result; null where there is none."""
    characters: int
    """Its length."""
    result: str | None
    """The whole result, which has that digest."""
