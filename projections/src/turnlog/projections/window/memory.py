"""What a reader of the memory may see, by the memory policy that a session is pinned to.

The policy limits messages, characters and age; the reader's own settings can only lower these
limits. A turn is excluded as a whole: no question without its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from turnlog.projections.blueprint.memory import MemoryPolicy, Reader, ReaderName
from turnlog.projections.session.state import Said, SessionState, TurnRef


@dataclass(frozen=True, slots=True)
class Recall:
    """Who reads the memory, when, and about which entity."""

    policy: MemoryPolicy
    reader: ReaderName | None
    """None for what the policy itself allows any reader."""
    at: str
    """Clock reading, RFC 3339."""
    entity: str | None = None
    """None before a resolver has named one."""

    @property
    def silent(self) -> str | None:
        """Why nothing at all may be shown; None if something may be."""
        if not self.policy.enabled:
            return "memory off"
        if not self._block.enabled:
            return f"{self.reader} off"
        return None if self._block.allows(self.entity) else "entity not allowed"

    @property
    def most_messages(self) -> int | None:
        """The maximum number of messages; None for no limit."""
        return _least(self.policy.max_turns, self._block.max_turns)

    @property
    def most_characters(self) -> int | None:
        """The maximum number of characters; None for no limit."""
        return _least(self.policy.max_chars, self._block.max_chars)

    @property
    def _block(self) -> Reader:
        return self.policy.reader(self.reader) if self.reader else Reader()


def recalled(
    policy: MemoryPolicy | None, reader: ReaderName | None, state: SessionState, at: str
) -> Recall | None:
    """Return what a reader may see now; None where no policy applies."""
    if reader is None:
        return None
    resolved = state.open.resolved if state.open else None
    entity = resolved.entity if resolved else None
    return Recall(policy or MemoryPolicy(), reader, at, entity)


def forgotten(recall: Recall, turns: Sequence[TurnRef]) -> dict[int, str]:
    """Return the turns that may not be shown, each with the rule that excludes it."""
    if why := recall.silent:
        return {ref.turn: why for ref in turns}
    rules: dict[int, str] = {}
    messages = characters = 0
    over: str | None = None
    for ref in reversed(turns):
        said = messages_in(ref)
        messages += len(said)
        characters += sum(each.characters for each in said)
        over = over or _over(recall, said, messages, characters)
        if over:
            rules[ref.turn] = over
    return rules


def messages_in(ref: TurnRef) -> tuple[Said, ...]:
    """Return the references of a turn's messages; empty texts are no messages."""
    text, reply = ref.text, ref.reply
    asked = (text,) if text and text.characters else ()
    return (*asked, reply) if reply and reply.characters else asked


def _over(recall: Recall, said: Sequence[Said], messages: int, characters: int) -> str | None:
    if recall.policy.ttl_seconds and any(_expired(recall, each) for each in said):
        return "expired"
    if recall.most_messages is not None and messages > recall.most_messages:
        return "max_turns"
    if recall.most_characters is not None and characters > recall.most_characters:
        return "max_chars"
    return None


def _expired(recall: Recall, said: Said) -> bool:
    age = datetime.fromisoformat(recall.at) - datetime.fromisoformat(said.at)
    return age > timedelta(seconds=recall.policy.ttl_seconds)


def _least(*limits: int) -> int | None:
    """Return the lowest limit, where 0 means no limit."""
    return min((limit for limit in limits if limit), default=None)
