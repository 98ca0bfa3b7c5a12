"""Stored events as ordinary readers get them: what belongs to a withheld reply is left out.

A reply may be withheld long after it was recorded. Its event then still holds the text, because the
hash chain covers the stored bytes. Readers get another form of the event: the replacement stands in
place of every text that a model wrote in that turn, of every summary of it, and of the results of
its tools. Results that no rule withholds stay where a rule withheld the reply. Digests
from which a short text could be guessed are left out too: those of the text itself, of the prompts
that included it, of the command's body, and the event's own id, without which the digest in the
next event cannot be computed from a guess. The text of the user stays.

The form names the redaction (`withheldby`) and where the stored bytes are (`storedat`). It is an
envelope that decodes like any other, but its bytes are not those that the hash chain covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from turnlog.events.content import Content
from turnlog.events.envelope import Envelope, RecordedEvent
from turnlog.events.event_model import ReplyTextEvent
from turnlog.events.model.call_events import AttemptEnded, CallCompleted, ContextAssembled
from turnlog.events.model.manifest import KnowledgeSource, Manifest, PromptPart, StoredTextSource
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCompleted, TurnResolved
from turnlog.events.registry import Event, KnownEvent

_ReplyTextEventT = TypeVar("_ReplyTextEventT", bound=ReplyTextEvent)

WITHHELD_DIGEST: Final = "withheld"
"""In place of a digest that an event must have."""


class ReaderEnvelope(Envelope):
    """An event as a reader gets it; the fields below are present where a text is withheld."""

    withheldby: int | None = None
    """Sequence of the redaction by which a text of this event is withheld."""
    storedat: str | None = None
    """Path of the stored bytes of the event."""


@dataclass(frozen=True, slots=True)
class TurnRedaction:
    """The redaction of a turn's reply, and its place in the session."""

    sequence: int
    replacement: Content
    results: tuple[int, ...] = ()
    """Sequences of the tool results that no rule withholds."""


@dataclass(frozen=True, slots=True)
class RedactedTurns:
    """The redactions of the sessions of one tenant that a reader has loaded."""

    by_session: dict[str, dict[int, TurnRedaction]] = field(
        default_factory=dict[str, dict[int, TurnRedaction]]
    )

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Note the redaction, if the event is one."""
        if isinstance(recorded.event, ReplyRedacted):
            turns = self.by_session.setdefault(recorded.session, {})
            redaction = TurnRedaction(
                recorded.sequence, recorded.event.replacement, recorded.event.kept_results
            )
            turns.setdefault(recorded.event.turn, redaction)

    def count_redactions(self, session: str) -> int:
        """Return how many redactions of a session there are."""
        return len(self.by_session.get(session, ()))

    def format_for_reader(self, recorded: RecordedEvent) -> bytes:
        """Return an event as a reader gets it: as stored, or without what is withheld."""
        turns = self.by_session.get(recorded.session)
        if not turns:
            return recorded.stored
        redaction = _find_redaction(turns, recorded)
        if redaction is None:
            return recorded.stored
        event = _withhold_texts(recorded.event, redaction.replacement)
        return recorded.stored if event is None else _encode_event(recorded, event, redaction)


def _find_redaction(
    turns: dict[int, TurnRedaction], recorded: RecordedEvent
) -> TurnRedaction | None:
    """Return the redaction that an event must not undo, or None."""
    match recorded.event:
        case ToolReturned(turn=turn):
            redaction = turns.get(turn)
            return None if redaction and recorded.sequence in redaction.results else redaction
        case HistorySummarised(turns=ranges):
            covered = (range(each.first, each.last + 1) for each in ranges)
            found = [turns[turn] for numbers in covered for turn in turns if turn in numbers]
            return _find_later(found, recorded.sequence)
        case ContextAssembled(turn=turn, call=call, manifest=manifest):
            # The first prompt of a turn includes nothing that was written in it, but what the turn
            # retrieved.
            has_retrieved = any(isinstance(part.source, KnowledgeSource) for part in manifest.parts)
            last = turn - 1 if call == f"{turn}.1" and not has_retrieved else turn
            earlier = [each for number, each in turns.items() if number <= last]
            return _find_later(earlier, recorded.sequence)
        case (
            ReplyTextEvent(turn=turn)
            | ToolStarted(turn=turn)
            | TurnCompleted(turn=turn)
            | TurnResolved(turn=turn)
            | CallCompleted(turn=turn)
            | KnowledgeRetrieved(turn=turn)
            | ReplyRedacted(turn=turn)
        ):
            return turns.get(turn)
        case _:
            return None


def _find_later(found: Iterable[TurnRedaction], sequence: int) -> TurnRedaction | None:
    """Return the first redaction after a sequence; what came after it has the replacement."""
    later = [each for each in found if each.sequence > sequence]
    return min(later, key=lambda each: each.sequence, default=None)


def _withhold_texts(event: Event, instead: Content) -> KnownEvent | None:
    """Return an event without what is withheld; None if it says nothing of it."""
    match event:
        case ApprovalDecided():
            return _withhold_approved_arguments(event)
        case ToolStarted(ran=ran) if ran is not None:
            return event.model_copy(update={"ran": None})
        case AttemptEnded(parts=parts) if parts:
            left = event.model_copy(update={"parts": ()})
            return _withhold_reply_texts(left, instead) or left
        case ReplyTextEvent():
            return _withhold_reply_texts(event, instead)
        case TurnCompleted():
            return _withhold_reply(event, instead)
        case TurnResolved():
            return event.model_copy(update={"results": instead, "answer": instead, "meta": {}})
        case CallCompleted(text=text, reasoning=reasoning):
            hidden = {"digest": WITHHELD_DIGEST, "characters": 0, "parts": ()}
            texts = {"text": text and instead, "reasoning": reasoning and instead}
            return event.model_copy(update=hidden | texts)
        case ToolReturned(text=text, summary=summary, brief=brief):
            texts = {
                "text": text and instead,
                "summary": summary and instead,
                "brief": brief and instead,
            }
            unsaid = {
                "detail": "",
                "result": None,
                "characters": 0,
                "parts": (),
                "whole": None,
            }
            return event.model_copy(update=texts | unsaid)
        case KnowledgeRetrieved():
            return _withhold_retrieval(event, instead)
        case HistorySummarised():
            return event.model_copy(update={"summary": instead, "inputs": WITHHELD_DIGEST})
        case ContextAssembled(manifest=manifest):
            update = {"manifest": _withhold_digests(manifest), "body_digest": None}
            return event.model_copy(update=update)
        case ReplyRedacted(withheld=withheld) if withheld is not None:
            return event.model_copy(update={"withheld": None})
        case _:
            return None


def _withhold_approved_arguments(event: ApprovalDecided) -> ApprovalDecided | None:
    """Return a decision without its texts and the digests of arguments."""
    hidden = {"reason": "", "edited": event.edited and "", "shown": None, "approved": None}
    left = event.model_copy(update=hidden)
    return None if left == event else left


def _withhold_reply_texts(event: _ReplyTextEventT, instead: Content) -> _ReplyTextEventT | None:
    texts = {name: text for name in event.reply_texts if (text := getattr(event, name))}
    hidden = {name: "" if isinstance(text, str) else instead for name, text in texts.items()}
    return event.model_copy(update=hidden) if hidden else None


def _withhold_retrieval(event: KnowledgeRetrieved, instead: Content) -> KnowledgeRetrieved:
    """Return a retrieval without what it found, and without the queries that a model wrote."""
    hidden = {"title": "", "digest": WITHHELD_DIGEST, "characters": 0}
    left = tuple(each.model_copy(update=hidden) for each in event.candidates)
    written = {"query": instead, "more_queries": tuple(instead for _ in event.more_queries)}
    queries = written if event.origin == "call" else {}
    return event.model_copy(update={"candidates": left, **queries})


def _withhold_reply(event: TurnCompleted, instead: Content) -> TurnCompleted:
    answer = event.answer
    if answer is not None:
        texts = {"text": answer.text and instead, "reasoning": answer.reasoning and instead}
        answer = answer.model_copy(update=texts)
    hidden = {"text": instead, "work": None, "structured": False, "answer": answer, "parts": ()}
    return event.model_copy(update=hidden)


def _withhold_digests(manifest: Manifest) -> Manifest:
    """Return a manifest without the digests of texts of the session and of the whole prompt."""
    parts = tuple(map(_withhold_part_digest, manifest.parts))
    return manifest.model_copy(update={"digest": WITHHELD_DIGEST, "parts": parts})


def _withhold_part_digest(part: PromptPart) -> PromptPart:
    if isinstance(part.source, KnowledgeSource):
        hidden = part.source.model_copy(update={"digest": WITHHELD_DIGEST})
        # Its title is in the text before it.
        return part.model_copy(update={"source": hidden, "digest": None, "before": ""})
    if isinstance(part.source, StoredTextSource):
        return part
    # The item of a picture or a file is its name, which a tool may have chosen.
    item = part.item if part.at is None else None
    return part.model_copy(update={"digest": None, "item": item})


def _encode_event(recorded: RecordedEvent, event: KnownEvent, redaction: TurnRedaction) -> bytes:
    session, sequence = recorded.session, recorded.sequence
    kept = recorded.envelope.model_dump(exclude={"id", "type", "commandhash", "data"})
    form = ReaderEnvelope(
        **kept,
        id=f"{session}/{sequence}",
        type=event.type,
        withheldby=redaction.sequence,
        storedat=f"/v1/sessions/{session}/events?after={sequence - 1}&limit=1&stored=true",
        data=event.model_dump(mode="json", exclude_defaults=True),
    )
    return form.model_dump_json(exclude_none=True).encode()
