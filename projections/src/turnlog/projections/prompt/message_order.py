"""The messages of a prompt in the roles and the order that its server takes.

Texts are added one after the other. A text that cannot be a message of its own joins the message
before it, after a blank line, and one in a role that cannot be at its place is sent in another: no
text is left out or moved. The parts of the manifest say the same of each text, so that a prompt is
read back without these rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.model.manifest import MessageRole, RoleOrder
from turnlog.projections.blueprint.schema.call_specs import LAYER_SEPARATOR
from turnlog.projections.prompt.chat_request import ChatMessage

OPENING_TEXT: Final = "(The conversation begins with the assistant.)"
"""The message of the user before one of the assistant, where a server takes the user's first."""


@dataclass(slots=True)
class MessageOrder:
    """The messages of a prompt so far."""

    roles: RoleOrder
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    joins_first_turns: bool = True
    """Whether turns are joined as well where a prompt begins with a history."""

    def resolve_role(self, role: MessageRole) -> MessageRole:
        """Return the role in which a text is sent: a late text of the system is one of the user."""
        is_late = bool(self.messages) and self.messages[-1].role != "system"
        return "user" if role == "system" and is_late and self.roles != "anywhere" else role

    def needs_opening(self, role: MessageRole) -> bool:
        """Return whether a message of the user must come before one of this role."""
        is_first = not self.messages or self.messages[-1].role == "system"
        return self.roles == "alternating" and role == "assistant" and is_first

    def find_joint(self, role: MessageRole) -> str:
        """Return what separates a text from the message that it joins; empty if it joins none."""
        if self.roles == "anywhere" or not self.messages:
            return ""
        return LAYER_SEPARATOR if can_join(self.roles, self.messages[-1], role) else ""

    def find_place(self, joint: str) -> int:
        """Return the index of the message that the next text is in."""
        return len(self.messages) - bool(joint)

    def add_message(self, message: ChatMessage, joint: str = "") -> None:
        """Add a message, or join it to the one before it."""
        if joint and self.messages:
            before = self.messages.pop()
            text = before.content + (joint if message.content else "")
            moved = (replace(each, at=len(text) + each.at) for each in message.media)
            media = (*before.media, *moved)
            message = replace(message, content=text + message.content, media=media)
        self.messages.append(message)

    def add_run(self, messages: Iterable[ChatMessage], joint: str = "") -> None:
        """Add messages of which the first may join the one before it."""
        rest = iter(messages)
        if joint and (first := next(rest, None)):
            self.add_message(first, joint)
        self.messages.extend(rest)


def can_join(roles: RoleOrder, before: ChatMessage, role: MessageRole) -> bool:
    """Return whether a text of a role belongs into the message before it.

    A tool call and its results are messages of their own. So is a reply with what was reasoned.
    """
    if before.role != role or before.tool_calls or before.reasoning or role == "tool":
        return False
    return roles == "alternating" or (roles == "system_first" and role == "system")


def send_as_user(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return the messages of turns with the texts of the system as messages of the user."""
    return tuple(replace(each, role="user") if each.role == "system" else each for each in messages)
