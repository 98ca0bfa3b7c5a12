"""What is answered about prompts: what a call would see, and what a call was sent."""

from __future__ import annotations

from pydantic import JsonValue

from turnlog.events.call import Cost
from turnlog.events.content import Digest
from turnlog.events.manifest import Manifest, Role
from turnlog.services.gateway.payloads.closed import Answer


class MessageView(Answer):
    """One message of a prompt."""

    role: Role
    """Who speaks."""
    content: str
    """What it says."""


class WindowView(Answer):
    """What a call would see."""

    session: str
    """The session."""
    sequence: int
    """The state that was assembled."""
    call: str
    """The kind of call."""
    model: str
    """The model it would go to."""
    messages: tuple[MessageView, ...]
    """The messages in order."""
    tools: tuple[dict[str, JsonValue], ...]
    """The tools it would be offered."""
    manifest: Manifest
    """What each part is and where it comes from."""
    cost: Cost
    """What the prompt alone would cost, by its own count of tokens; the reply comes on top."""


class Unproven(Answer):
    """Why a prompt could not be shown to be the recorded one."""

    where: str
    """The part."""
    detail: str
    """What is wrong with it."""


class PromptView(Answer):
    """The exact prompt of a call, read back from the log."""

    session: str
    """The session."""
    sequence: int
    """Of the event that recorded it."""
    call: str
    """The call."""
    turn: int
    """Its turn."""
    model: str
    """The model as litellm was told it."""
    parameters: dict[str, JsonValue]
    """Sampling parameters as litellm was told them."""
    messages: tuple[MessageView, ...]
    """The messages; none where one could not be read back."""
    tools: tuple[dict[str, JsonValue], ...]
    """The tools it was offered."""
    manifest: Manifest
    """The record of its parts."""
    digest: Digest
    """Of the canonical request, as recorded."""
    verified: bool
    """Whether what was read back has that digest."""
    fault: Unproven | None
    """Why not."""
