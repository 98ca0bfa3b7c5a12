"""What a reader of the memory may see, by the memory policy that a session is pinned to.

The policy limits messages, characters and age; the reader's own settings can only lower these
limits. A turn is excluded as a whole: no question without its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from turnlog.projections.blueprint.schema.history_specs import (
    MemoryPolicy,
    MemoryReaderName,
    MemoryReaderSpec,
)
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """Who reads the memory, when, and about which entity."""

    policy: MemoryPolicy
    reader: MemoryReaderName | None
    """None for what the policy itself allows any reader."""
    at: str
    """Clock reading, RFC 3339."""
    entity: str | None = None
    """None before a resolver has named one."""
    counts_empty_replies: bool = False
    """Whether an empty reply, as of an unroutable turn, is a message; in a prompt it is none."""

    @property
    def denial_reason(self) -> str | None:
        """Why all turns are excluded; None if some may be included."""
        if not self.policy.enabled:
            return "memory off"
        if not self._reader_limits.enabled:
            return f"{self.reader} off"
        return None if self._reader_limits.is_entity_allowed(self.entity) else "entity not allowed"

    @property
    def message_limit(self) -> int | None:
        """The maximum number of messages; None for no limit."""
        return _pick_narrowest_limit(self.policy.max_turns, self._reader_limits.max_turns)

    @property
    def character_limit(self) -> int | None:
        """The maximum number of characters; None for no limit."""
        return _pick_narrowest_limit(self.policy.max_chars, self._reader_limits.max_chars)

    @property
    def _reader_limits(self) -> MemoryReaderSpec:
        return self.policy.get_reader(self.reader) if self.reader else MemoryReaderSpec()


def build_memory_access(
    policy: MemoryPolicy | None, reader: MemoryReaderName | None, state: SessionState, at: str
) -> MemoryAccess | None:
    """Return what a reader may see now; None where no policy applies."""
    if reader is None:
        return None
    resolved = state.open.resolved if state.open else None
    entity = resolved.entity if resolved else None
    return MemoryAccess(policy=policy or MemoryPolicy(), reader=reader, at=at, entity=entity)


def find_memory_exclusions(recall: MemoryAccess, turns: Sequence[SettledTurnRef]) -> dict[int, str]:
    """Return the turns that may not be shown, each with the rule that excludes it."""
    if denial_reason := recall.denial_reason:
        return {ref.turn: denial_reason for ref in turns}
    rules: dict[int, str] = {}
    messages = characters = 0
    over: str | None = None
    for ref in reversed(turns):
        message_refs = list_recalled_refs(recall, ref)
        messages += len(message_refs)
        characters += sum(each.characters for each in message_refs)
        over = over or _find_exceeded_limit(recall, message_refs, messages, characters)
        if over:
            rules[ref.turn] = over
    return rules


def list_message_refs(ref: SettledTurnRef) -> tuple[TextRef, ...]:
    """Return the references of a turn's messages; empty texts without media are no messages."""
    text, reply = ref.text, ref.reply
    question_refs = (text,) if text and (text.characters or ref.media) else ()
    if reply and reply.characters:
        return (*question_refs, reply)
    # Without a reply, the outcomes of the turn's tools are the answer.
    return (*question_refs, *ref.outcome_refs[:1])


def list_recalled_refs(recall: MemoryAccess, ref: SettledTurnRef) -> tuple[TextRef, ...]:
    """Return the references of a turn's messages, as a reader of the memory counts them."""
    said = list_message_refs(ref)
    is_silent = ref.reply is not None and not ref.reply.characters
    return (*said, ref.reply) if recall.counts_empty_replies and ref.reply and is_silent else said


def _find_exceeded_limit(
    recall: MemoryAccess, message_refs: Sequence[TextRef], messages: int, characters: int
) -> str | None:
    if recall.policy.ttl_seconds and any(_is_expired(recall, each) for each in message_refs):
        return "expired"
    if recall.message_limit is not None and messages > recall.message_limit:
        return "max_turns"
    if recall.character_limit is not None and characters > recall.character_limit:
        return "max_chars"
    return None


def _is_expired(recall: MemoryAccess, ref: TextRef) -> bool:
    age = datetime.fromisoformat(recall.at) - datetime.fromisoformat(ref.at)
    return age > timedelta(seconds=recall.policy.ttl_seconds)


def _pick_narrowest_limit(*limits: int) -> int | None:
    """Return the lowest limit, where 0 means no limit."""
    return min((limit for limit in limits if limit), default=None)


MemoryMessage = dict[str, JsonValue]
"""An object of `role`, `content`, `created_at` and `meta`; see `_format_turn_messages`."""


def format_memory_messages(
    recall: MemoryAccess, turns: Iterable[SettledTurnRef], texts: Mapping[TextRef, str]
) -> tuple[MemoryMessage, ...]:
    """Return the messages of turns, in order."""
    return tuple(message for ref in turns for message in _format_turn_messages(recall, ref, texts))


def _format_turn_messages(
    recall: MemoryAccess, ref: SettledTurnRef, texts: Mapping[TextRef, str]
) -> Iterator[MemoryMessage]:
    for message_ref in list_recalled_refs(recall, ref):
        yield {
            "role": ref.role if message_ref is ref.text else "assistant",
            "content": texts[message_ref] if message_ref.characters else "",
            "created_at": message_ref.at,
            "meta": {
                "turn": ref.turn,
                "request_id": ref.request,
                "intent": ref.intent,
                "entity": ref.entity,
            },
        }
