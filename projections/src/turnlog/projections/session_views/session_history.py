"""The history of a session: every turn with its text, its reply and its status.

It is the read model for people. Excluded, failed and cancelled turns are listed and marked as such;
only withheld replies and texts are replaced. A prompt window may hide more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.memory_events import MemoryPurged
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.retrieval_events import (
    EntryFeedbackGiven,
    FeedbackGiven,
    FeedbackVote,
)
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import (
    FinishReason,
    InputFinding,
    ReplyAnswer,
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnEndEvent,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnResolved,
    TurnRestored,
    TurnRole,
    TurnSubmitted,
)
from turnlog.projections.prompt.history.turn_messages import (
    TurnMessages,
    add_outcomes,
    add_work,
    build_turn_messages,
)
from turnlog.projections.session.fold.settled_turns import has_no_model_reply
from turnlog.projections.session_views.withheld_words import withhold_identifiers
from turnlog.projections.tools.result_condensation import omit_answered_results

TurnStatus = Literal["queued", "open", "completed", "failed", "cancelled"]

CUT_STATUSES: Final = frozenset[TurnStatus]({"failed", "cancelled"})
"""The statuses of turns that ended without their reply."""


@dataclass(frozen=True, slots=True)
class TurnDisplay:
    """The display form of a turn, HTML for example, which no window contains."""

    text: Content | None = None
    """The display form of the user's text."""
    reply: Content | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVote:
    """A vote in force on a turn, or on an entry that it retrieved."""

    vote: FeedbackVote
    sequence: int
    """The event of the vote."""
    collection: str | None = None
    """The collection of the entry; None for a vote on the turn."""
    entry: str | None = None
    """The id of the entry; None for a vote on the turn."""


# No slots: windows ask for the messages of a turn once per prompt, so they are cached properties.
@dataclass(frozen=True, kw_only=True)
class HistoryTurn:
    """One turn as people read it."""

    turn: int
    status: TurnStatus
    text: Content | None
    submitted_at: str
    sequence: int
    """Sequence of the event that submitted the turn."""
    reply: Content | None = None
    """The reply, or its replacement where the reply is withheld."""
    partial: Content | None = None
    """What was shown of the reply, where the latest attempt ended without an answer."""
    reasoning: Content | None = None
    """What the model reasoned in the latest call, as it is recorded; None if nothing of it came."""
    cut_reply: Content | None = None
    """What prompts include as the reply of a turn that was cancelled or failed; None if they leave
    out what was said in it.
    """
    cut_line: str | None = None
    """The end of it, which says that the reply was cut."""
    is_kept: bool = False
    """Whether prompts include what was said in a turn that was cancelled or failed."""
    attempt: int = 0
    """The latest attempt; 0 while no worker has claimed the turn."""
    finish: FinishReason | None = None
    call: str | None = None
    settled_at: str | None = None
    excluded: bool = False
    redacted: bool = False
    text_withheld: str | None = None
    """Why what was submitted was withheld, all of it or a part; None if nothing was. `text` is
    what stands.
    """
    purged: bool = False
    """Whether a memory purge removed the turn from all later windows."""
    reason: str | None = None
    """Why the turn failed, was cancelled or was redacted."""
    detail: str | None = None
    """What went wrong, where the turn failed."""
    remembered: bool = True
    """Whether later prompts may include this turn."""
    resolved: TurnResolved | None = None
    """What a resolver returned for the turn."""
    fallback: ReplyFallback | None = None
    """Why the reply is not a model's."""
    work: Content | None = None
    """How the reply was worked out; None for a withheld reply."""
    role: TurnRole = "user"
    """Whose text it is; a turn of the system has no reply."""
    findings: tuple[InputFinding, ...] = ()
    """What the rules of `input_safety` masked or noted."""
    meta: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What the application recorded with the turn."""
    display: TurnDisplay | None = None
    """The display form, where a client supplied one."""
    structured: bool = False
    """Whether the reply is JSON that matches the schema of its call."""
    outcomes: str = ""
    """The tools that ran, each with its outcome; empty if none did."""
    results: tuple[Content, ...] = ()
    """The tool results that prompts include with the outcomes."""
    shows_outcomes: bool = False
    """Whether prompts include the outcomes, since no reply of a model mentions them."""
    kept: tuple[int, ...] = ()
    """Of a turn whose reply is withheld: sequences of the tool results that are not."""
    returned: tuple[tuple[int, Content], ...] = ()
    """The tool results of an open turn, each with the sequence of its event."""
    votes: tuple[TurnVote, ...] = ()
    """The votes in force on the turn and on what it retrieved, in order."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files beside its text."""
    reply_parts: tuple[MediaPart, ...] = ()
    """Those of the reply, or of what was shown of it, whose text has a line for each."""

    @cached_property
    def messages(self) -> TurnMessages:
        """The turn's messages in a prompt; a text that cannot be opened counts as empty."""
        return build_turn_messages(
            _get_text(self.text), self._build_answer(), self.role, has_media=bool(self.parts)
        )

    @cached_property
    def messages_with_work(self) -> TurnMessages:
        """The turn's messages in a prompt that includes how the reply was worked out."""
        return self._build_messages(_get_text(self.work))

    @cached_property
    def messages_without_results(self) -> TurnMessages:
        """The same in a prompt that lists the results of the turn in a layer."""
        return self._build_messages(omit_answered_results(_get_text(self.work)))

    def _build_messages(self, work: str) -> TurnMessages:
        if not work:
            return self.messages
        answer, has_media = add_work(work, self._build_answer()), bool(self.parts)
        return build_turn_messages(_get_text(self.text), answer, has_media=has_media)

    def _build_answer(self) -> str:
        reply = _get_text(self.reply or self.cut_reply)
        if not (self.outcomes and self.shows_outcomes):
            return reply
        return add_outcomes((self.outcomes, *map(_get_text, self.results)), reply)


def _get_text(content: Content | None) -> str:
    return content.text if isinstance(content, PlainText) else ""


TurnsByNumber = dict[int, HistoryTurn]


def build_history(events: Iterable[RecordedEvent]) -> tuple[HistoryTurn, ...]:
    """Return the turns of a session's events, ordered by number."""
    turns: TurnsByNumber = {}
    for recorded in events:
        update_history(turns, recorded)
    return tuple(turns[turn] for turn in sorted(turns))


def apply_redactions(
    turns: Iterable[HistoryTurn], redactions: Iterable[RecordedEvent]
) -> tuple[HistoryTurn, ...]:
    """Return turns of an earlier time without the replies and texts that were withheld since."""
    found: TurnsByNumber = {turn.turn: turn for turn in turns}
    for recorded in redactions:
        match recorded.event:
            case TextRedacted() as event if event.turn in found:
                found[event.turn] = _redact_text(found[event.turn], event)
            case ReplyRedacted() as event if event.turn in found:
                found[event.turn] = _apply_redaction(found[event.turn], recorded, event)
            case _:
                pass
    return tuple(found.values())


def _apply_redaction(
    turn: HistoryTurn, redaction: RecordedEvent, event: ReplyRedacted
) -> HistoryTurn:
    if turn.settled_at is None:
        # It had no reply yet, but what its earlier calls reasoned and its tools returned.
        kept = event.kept_results
        unsaid = replace(turn, partial=None, reasoning=None, reply_parts=())
        return replace(unsaid, redacted=True, kept=kept)
    return _redact_turn(turn, event, redaction.envelope.time)


def update_history(turns: TurnsByNumber, recorded: RecordedEvent) -> None:
    """Apply one more event to the turns collected so far."""
    at = recorded.envelope.time
    match recorded.event:
        # The cases that occur in every turn come first: each case costs a check for all events
        # below it.
        case TurnSubmitted() as event:
            turns[event.turn] = _start_turn(recorded, event, "open")
        case TurnCompleted(turn=number) if number in turns and turns[number].role == "system":
            turns[number] = replace(turns[number], status="completed", settled_at=at)
        case TurnCompleted() as event if event.turn in turns:
            turns[event.turn] = _complete_turn(turns[event.turn], event, at)
        case AttemptStarted() as event if event.turn in turns:
            turns[event.turn] = _begin_attempt(turns[event.turn], event)
        case AttemptEnded() | CallCompleted() as event if event.turn in turns:
            turns[event.turn] = _keep_texts(turns[event.turn], event)
        case AttemptStarted() | AttemptEnded() | CallCompleted() | ContextAssembled():
            pass
        case TurnQueued() as event:
            turns[event.turn] = _start_turn(recorded, event, "queued")
        case TurnReleased(turn=number) if number in turns:
            turns[number] = replace(turns[number], status="open")
        case TurnResolved() as event if event.turn in turns:
            turns[event.turn] = replace(turns[event.turn], resolved=event)
        case ToolReturned(turn=number, text=text, summary=summary) if number in turns:
            if result := summary or text:
                returned = (*turns[number].returned, (recorded.sequence, result))
                turns[number] = replace(turns[number], returned=returned)
        case TurnFailed(turn=number, code=reason, detail=detail) as event if number in turns:
            failed = replace(turns[number], status="failed", reason=reason, detail=detail)
            turns[number] = _settle_cut_turn(failed, event, at)
        case TurnCancelled(turn=number, reason=reason) as event if number in turns:
            cancelled = replace(turns[number], status="cancelled", reason=reason)
            turns[number] = _settle_cut_turn(cancelled, event, at)
        case TurnExcluded(turn=number) if number in turns:
            turns[number] = replace(turns[number], excluded=True)
        case TurnRestored(turn=number) if number in turns:
            turns[number] = replace(turns[number], excluded=False)
        case TurnDisplayed(turn=number, text=text, reply=reply) if number in turns:
            turns[number] = _set_display(turns[number], text, reply)
        case FeedbackGiven() | EntryFeedbackGiven() as event if event.turn in turns:
            turns[event.turn] = _apply_vote(turns[event.turn], recorded.sequence, event)
        case MemoryPurged(upto=upto):
            purged = {n: replace(turn, purged=True) for n, turn in turns.items() if n <= upto}
            turns.update(purged)
        case ReplyRedacted() as event if event.turn in turns:
            turns[event.turn] = _redact_turn(turns[event.turn], event, at)
        case TextRedacted() as event if event.turn in turns:
            turns[event.turn] = _redact_text(turns[event.turn], event)
        case _:
            pass


def _start_turn(
    recorded: RecordedEvent, event: TurnSubmitted | TurnQueued, status: Literal["open", "queued"]
) -> HistoryTurn:
    turn = HistoryTurn(
        turn=event.turn,
        status=status,
        text=event.text,
        submitted_at=recorded.envelope.time,
        sequence=recorded.sequence,
        findings=event.findings,
        meta=event.meta,
    )
    turn = replace(turn, parts=event.parts) if event.parts else turn
    turn = turn if event.remembered else replace(turn, remembered=False)
    if isinstance(event, TurnSubmitted) and event.role != "user":
        return replace(turn, role=event.role)
    return turn


def _begin_attempt(turn: HistoryTurn, event: AttemptStarted) -> HistoryTurn:
    return replace(turn, attempt=event.attempt, partial=None, reply_parts=())


def _complete_turn(turn: HistoryTurn, event: TurnCompleted, at: str) -> HistoryTurn:
    return replace(
        _keep_outcomes(_keep_reasoning(turn, event.answer), event),
        status="completed",
        reply=event.text,
        reply_parts=event.parts,
        partial=None,
        finish=event.finish,
        call=event.call,
        fallback=event.fallback,
        work=event.work,
        settled_at=at,
        structured=event.structured,
    )


def _settle_cut_turn(turn: HistoryTurn, event: TurnFailed | TurnCancelled, at: str) -> HistoryTurn:
    settled = _keep_outcomes(replace(turn, settled_at=at), event)
    if event.cut_reply is None:
        return settled
    kept = replace(settled, cut_reply=event.cut_reply, is_kept=True)
    if not isinstance(event.cut_reply, PlainText):
        return kept
    text = event.cut_reply.text
    shown = PlainText(text=text[: event.shown]) if event.shown else settled.partial
    return replace(kept, cut_line=text[event.shown :].strip(), partial=shown)


def _keep_texts(turn: HistoryTurn, event: AttemptEnded | CallCompleted) -> HistoryTurn:
    """Return a turn with what the model reasoned before an answer, or had shown without one.

    A later attempt or a reply replaces what was shown.
    """
    if isinstance(event, CallCompleted):
        return _keep_reasoning(turn, event)
    if event.attempt != turn.attempt or turn.status == "completed" or turn.redacted:
        return turn
    turn = replace(turn, reply_parts=event.parts) if event.parts else turn
    # What prompts include was read when the turn ended, and the worker may have published more.
    has_shown = turn.is_kept and turn.partial is not None
    return turn if has_shown else replace(turn, partial=event.partial)


def _keep_reasoning(turn: HistoryTurn, answer: CallCompleted | ReplyAnswer | None) -> HistoryTurn:
    """Return a turn with what the model reasoned before its latest answer."""
    if answer is None or answer.reasoning == turn.reasoning:
        return turn
    return replace(turn, reasoning=answer.reasoning)


def _keep_outcomes(turn: HistoryTurn, event: TurnEndEvent) -> HistoryTurn:
    """Return a turn with what the event that ends it leaves of its tools."""
    if not event.outcomes:
        return replace(turn, returned=()) if turn.returned else turn
    returned = dict(turn.returned)
    return replace(
        turn,
        outcomes=event.outcomes,
        results=tuple([returned[each] for each in event.kept_results if each in returned]),
        shows_outcomes=has_no_model_reply(event),
        returned=(),
    )


def _apply_vote(
    turn: HistoryTurn, sequence: int, event: FeedbackGiven | EntryFeedbackGiven
) -> HistoryTurn:
    """Return a turn with a vote in place of the one before it on the same."""
    collection, entry = (
        (event.collection, event.entry) if isinstance(event, EntryFeedbackGiven) else (None, None)
    )
    others = [each for each in turn.votes if (each.collection, each.entry) != (collection, entry)]
    if event.vote != "none":
        given = TurnVote(vote=event.vote, sequence=sequence, collection=collection, entry=entry)
        others.append(given)
    return replace(turn, votes=tuple(others))


def _set_display(turn: HistoryTurn, text: Content | None, reply: Content | None) -> HistoryTurn:
    was = turn.display or TurnDisplay()
    visible_text = None if turn.text_withheld else text or was.text
    visible_reply = None if turn.redacted else reply or was.reply
    return replace(turn, display=TurnDisplay(visible_text, visible_reply))


def _redact_turn(turn: HistoryTurn, event: ReplyRedacted, at: str) -> HistoryTurn:
    kept = _keep_outcomes(turn, event) if event.outcomes else replace(turn, results=())
    return replace(
        kept,
        status=turn.status if turn.status in CUT_STATUSES else "completed",
        reply=event.replacement,
        reply_parts=(),
        partial=None,
        reasoning=None,
        cut_reply=None,
        cut_line=None,
        redacted=True,
        structured=False,
        work=None,
        shows_outcomes=True,
        kept=event.kept_results,
        display=TurnDisplay(turn.display.text) if turn.display else None,
        reason=event.reason,
        settled_at=turn.settled_at or at,
    )


def _redact_text(turn: HistoryTurn, event: TextRedacted) -> HistoryTurn:
    """Return a turn without what was withheld of its text, and without all that goes with it."""
    return replace(
        turn,
        text=event.replacement if turn.text else None,
        parts=turn.parts if event.spans else (),
        meta={},
        resolved=turn.resolved and withhold_identifiers(turn.resolved),
        display=TurnDisplay(reply=turn.display.reply) if turn.display else None,
        text_withheld=event.reason,
    )
