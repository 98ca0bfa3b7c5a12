"""What is answered about prompts: what a call would see, and what a call was sent."""

from __future__ import annotations

from pydantic import JsonValue

from turnlog.events.call import Cost
from turnlog.events.content import Digest
from turnlog.events.manifest import Manifest, Role
from turnlog.projections.audit.reproduction import Outcome
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
    """What stands between a prompt and its record."""

    where: str
    """The part."""
    detail: str
    """What is wrong with it."""


class WayView(Answer):
    """One way to a prompt, and whether it leads to the recorded one."""

    outcome: Outcome
    """`unreproducible` where this version or this installation cannot tell."""
    digest: Digest | None
    """Of the canonical request it gives; none where it gives none."""
    fault: Unproven | None
    """What differs first, or what has moved on; none where nothing differs."""


class PromptView(Answer):
    """The exact prompt of a call, had again from the log in two ways."""

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
    reference: WayView
    """By following the references of the manifest; `messages` are from here."""
    assembly: WayView
    """By assembling the call again from the session as it was."""
    verified: bool
    """Whether both ways lead to the recorded prompt, as far as this version can tell."""
    fault: Unproven | None
    """Why not."""
