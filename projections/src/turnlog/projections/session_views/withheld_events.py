"""Stored events as ordinary readers get them: what belongs to a withheld reply or text is left out.

A reply or a text may be withheld long after it was recorded. Its event then still holds it, because
the hash chain covers the stored bytes. Readers get another form of the event. Of a withheld reply
the replacement stands in place of every text that a model wrote in that turn, of every summary of
it, and of the results of its tools. Results that no rule withholds stay where a rule withheld the
reply. What goes with the text of a person is in `withheld_words`. Digests from which a short text
could be guessed are left out too: those of the text itself, of the prompts that included it, of the
command's body, and the event's own id, without which the digest in the next event cannot be
computed from a guess.

The form names the redaction (`withheldby`) and where the stored bytes are (`storedat`). It is an
envelope that decodes like any other, but its bytes are not those that the hash chain covers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from turnlog.events.content import Content
from turnlog.events.envelope import Envelope, RecordedEvent
from turnlog.events.event_model import ReplyTextEvent
from turnlog.events.model.call_events import AttemptEnded, CallCompleted, ContextAssembled
from turnlog.events.model.manifest import KnowledgeSource, ResolutionSource
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCompleted, TurnResolved
from turnlog.events.registry import Event, KnownEvent, UnknownEvent
from turnlog.projections.session.turn_summaries import contains_turn
from turnlog.projections.session_views.withheld_words import (
    WITHHELD_DIGEST,
    TurnRedaction,
    find_later,
    find_text_redaction,
    withhold_prompt_digests,
    withhold_words,
)

_ReplyTextEventT = TypeVar("_ReplyTextEventT", bound=ReplyTextEvent)

_FOUND_SOURCES: Final = (KnowledgeSource, ResolutionSource)
"""The sources of texts that were found for a turn before its first call."""


class ReaderEnvelope(Envelope):
    """An event as a reader gets it; the fields below are present where a text is withheld."""

    withheldby: int | None = None
    """Sequence of the redaction by which a text of this event is withheld."""
    storedat: str | None = None
    """Path of the stored bytes of the event."""


@dataclass(frozen=True, slots=True)
class _SessionRedactions:
    """What is withheld in a session, by turn."""

    replies: dict[int, TurnRedaction] = field(default_factory=dict[int, TurnRedaction])
    texts: dict[int, list[TurnRedaction]] = field(default_factory=dict[int, list[TurnRedaction]])
    """In the order of their events; the last one has what stands."""


@dataclass(frozen=True, slots=True)
class RedactedTurns:
    """The redactions of the sessions of one tenant that a reader has loaded."""

    by_session: dict[str, _SessionRedactions] = field(default_factory=dict[str, _SessionRedactions])

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Note the redaction, if the event is one."""
        match recorded.event:
            case ReplyRedacted(turn=turn, replacement=text, kept_results=results):
                found = self.by_session.setdefault(recorded.session, _SessionRedactions())
                redaction = TurnRedaction(recorded.sequence, text, results)
                found.replies.setdefault(turn, redaction)
            case TextRedacted(turn=turn, replacement=text, spans=spans):
                found = self.by_session.setdefault(recorded.session, _SessionRedactions())
                redaction = TurnRedaction(recorded.sequence, text, is_partial=bool(spans))
                found.texts.setdefault(turn, []).append(redaction)
            case _:
                pass

    def count_redactions(self, session: str) -> int:
        """Return how many redactions of a session there are."""
        found = self.by_session.get(session)
        return len(found.replies) + sum(map(len, found.texts.values())) if found else 0

    def format_for_reader(self, recorded: RecordedEvent) -> bytes:
        """Return an event as a reader gets it: as stored, or without what is withheld."""
        found = self.by_session.get(recorded.session)
        if found is None:
            return recorded.opened_bytes
        event, by = recorded.event, None
        if of_reply := _find_redaction(found.replies, recorded):
            left = _withhold_texts(event, of_reply.replacement)
            event, by = (event, by) if left is None else (left, of_reply)
        if of_text := find_text_redaction(found.texts, recorded):
            left = withhold_words(event, of_text, is_standing=recorded.sequence == of_text.sequence)
            event, by = (event, by) if left is None else (left, of_text)
            if by is None and recorded.envelope.commandhash is not None:
                by = of_text
        if by is None or isinstance(event, UnknownEvent):
            return recorded.opened_bytes
        return _encode_event(recorded, event, by)


def _find_redaction(
    turns: dict[int, TurnRedaction], recorded: RecordedEvent
) -> TurnRedaction | None:
    """Return the redaction that an event must not undo, or None."""
    match recorded.event:
        case ToolReturned(turn=turn):
            redaction = turns.get(turn)
            return None if redaction and recorded.sequence in redaction.results else redaction
        case HistorySummarised(turns=ranges):
            found = [each for turn, each in turns.items() if contains_turn(ranges, turn)]
            return find_later(found, recorded.sequence)
        case ContextAssembled(turn=turn, call=call, manifest=manifest):
            # The first prompt of a turn includes nothing that was written in it, but what the turn
            # retrieved, and what a resolver found.
            has_found = any(isinstance(part.source, _FOUND_SOURCES) for part in manifest.parts)
            last = turn - 1 if call == f"{turn}.1" and not has_found else turn
            earlier = [each for number, each in turns.items() if number <= last]
            return find_later(earlier, recorded.sequence)
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
        case ContextAssembled():
            return withhold_prompt_digests(event)
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
