"""The checker: compares what clients were told with the log, the rows and the clock.

Every fault of the record that a promise rules out is searched for here and has a name. All of it is
pure: evidence in, findings out. It uses no fold of the product except the verification of the
chain, so that a fault in `decide` or `evolve` cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tests.faults.checks import cost_record_checks, settling_events, tool_record_checks
from tests.faults.clients.client_history import ClientHistory, CommandTry, HeardReply, ReadResult
from turnlog.events.content import Digest, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnCompleted, TurnQueued, TurnSubmitted
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.services.extensions.plugins import collect_installed

FaultName = Literal[
    "lost", "invented", "doubled", "untrue answer", "reordered", "gap", "unproven", "two answers",
    "stale read", "overdue", "cost", "wrong reply", "tokens", "rows", "tools",
]  # fmt: skip

TableRows = Mapping[str, Sequence[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class PromiseViolation:
    """A fault that a promise rules out."""

    fault: FaultName
    session: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedEvidence:
    """Everything the checker judges by."""

    history: ClientHistory
    log: Mapping[str, Sequence[RecordedEvent]]
    """Every session's events as they are stored."""
    at: datetime
    """When the log was read."""
    deadline: timedelta = timedelta(seconds=300)
    """How long a turn may be open."""
    blobs: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    live: TableRows = field(default_factory=dict[str, Sequence[tuple[object, ...]]])
    """The rows that readers see."""
    rebuilt: TableRows = field(default_factory=dict[str, Sequence[tuple[object, ...]]])
    """The rows rebuilt from the log."""
    reply_to: Callable[[str], str] | None = None
    """The model's reply to a text, where it is always the same."""


def check_evidence(evidence: CheckedEvidence) -> tuple[PromiseViolation, ...]:
    """Return every fault."""
    found: list[PromiseViolation] = []
    for session in sorted({*evidence.log, *(each.session for each in evidence.history.tries)}):
        events = evidence.log.get(session, ())
        tries = [each for each in evidence.history.tries if each.session == session]
        checks = (
            *_check_commands(tries, events),
            *_check_record(events, evidence),
            *_check_reads(session, evidence),
        )
        found += [PromiseViolation(fault, session, detail) for fault, detail in checks]
    return (*found, *_compare_rows(evidence.live, evidence.rebuilt))


NamedFaults = Iterator[tuple[FaultName, str]]


def _check_commands(tries: Sequence[CommandTry], events: Sequence[RecordedEvent]) -> NamedFaults:
    keyed: dict[str, list[RecordedEvent]] = {}
    for recorded in events:
        if recorded.envelope.commandkey is not None:
            keyed.setdefault(recorded.envelope.commandkey, []).append(recorded)
    commands: dict[str, list[CommandTry]] = {}
    for each in tries:
        commands.setdefault(each.key, []).append(each)
    for key in keyed.keys() - commands.keys():
        yield "invented", f"nobody sent the command {key}"
    for key, sent in commands.items():
        yield from _check_effect(sent, keyed.get(key, []))
    yield from _check_order(tries)


def _check_effect(sent: Sequence[CommandTry], effect: Sequence[RecordedEvent]) -> NamedFaults:
    key, accepted = sent[0].key, [each for each in sent if each.accepted]
    if accepted and not effect:
        yield "lost", f"{key} was answered {accepted[0].status} and is not on the log"
    if not accepted and effect and any(each.refused for each in sent):
        yield "untrue answer", f"{key} was refused and is on the log"
    submits = [each for each in effect if isinstance(each.event, TurnSubmitted | TurnQueued)]
    if sent[0].what == "submit" and len(submits) > 1:
        yield "doubled", f"{key} submitted {len(submits)} turns"
    for each in accepted:
        if effect and each.body.get("sequence") not in {one.sequence for one in effect}:
            yield "untrue answer", f"{key} was told event {each.body.get('sequence')}"
        elif submits and (each.body.get("turn"), each.text) != _read_submitted_text(submits[0]):
            yield "untrue answer", f"{key} was told turn {each.body.get('turn')}"


def _read_submitted_text(recorded: RecordedEvent) -> tuple[int | None, str | None]:
    match recorded.event:
        case TurnSubmitted(turn=turn, text=PlainText(text=text)):
            return turn, text
        case TurnQueued(turn=turn, text=PlainText(text=text)):
            return turn, text
        case _:
            return None, None


def _check_order(tries: Sequence[CommandTry]) -> NamedFaults:
    """Check that a command answered before another was sent comes before it on the log."""
    accepted = sorted((each for each in tries if each.accepted), key=lambda each: each.told_at)
    first: dict[str, CommandTry] = {}
    for each in accepted:
        first.setdefault(each.key, each)
    for later in first.values():
        sent_at = min(each.asked_at for each in tries if each.key == later.key)
        before = [each for each in first.values() if each.told_at < sent_at]
        if any(each.body["sequence"] > later.body["sequence"] for each in before):
            yield "reordered", f"{later.key} was asked after what it comes before"


def _check_record(events: Sequence[RecordedEvent], evidence: CheckedEvidence) -> NamedFaults:
    for place, recorded in enumerate(events, 1):
        if recorded.sequence != place:
            yield "gap", f"event {recorded.sequence} stands in place {place}"
            break
    for finding in verify_session(
        events, evidence.blobs, VerificationContext(collect_installed())
    ).findings:
        if finding.check in {"chain", "reference", "assembly"}:
            yield "unproven", f"event {finding.sequence}: {finding.detail}"
    for turn, ends in settling_events.find_settling_events(events).items():
        if len(ends) > 1:
            yield "two answers", f"turn {turn} is settled by events {ends}"
    for turn in settling_events.find_overdue_turns(events, evidence.at, evidence.deadline):
        yield "overdue", f"turn {turn} is open past its deadline"
    for detail in cost_record_checks.find_cost_faults(events):
        yield "cost", detail
    for detail in tool_record_checks.find_tool_faults(events):
        yield "tools", detail
    yield from _check_replies(events, evidence.reply_to)


def _check_replies(
    events: Sequence[RecordedEvent], reply_to: Callable[[str], str] | None
) -> NamedFaults:
    texts = dict(_read_submitted_text(each) for each in events)
    for turn, reply in _list_recorded_replies(events).items():
        text = texts.get(turn)
        if reply_to and text is not None and reply != reply_to(text):
            yield "wrong reply", f"turn {turn} is answered with another's words"


def _list_recorded_replies(events: Sequence[RecordedEvent]) -> dict[int, str]:
    return {
        each.event.turn: each.event.text.text
        for each in events
        if isinstance(each.event, TurnCompleted) and isinstance(each.event.text, PlainText)
    }


def _check_reads(session: str, evidence: CheckedEvidence) -> NamedFaults:
    events = evidence.log.get(session, ())
    replies = _list_recorded_replies(events)
    for heard_reply in evidence.history.heard:
        if heard_reply.session == session:
            yield from _check_received_reply(heard_reply, replies)
    for look in evidence.history.reads:
        if look.session == session:
            yield from _check_read(look)


def _check_received_reply(heard_reply: HeardReply, replies: Mapping[int, str]) -> NamedFaults:
    recorded = replies.get(heard_reply.turn)
    if (heard_reply.end == "done") != (recorded is not None):
        yield "tokens", f"a watcher of turn {heard_reply.turn} was told {heard_reply.end}"
    elif heard_reply.end == "done" and heard_reply.text != recorded:
        yield "tokens", f"a watcher of turn {heard_reply.turn} heard another text than is recorded"


def _check_read(look: ReadResult) -> NamedFaults:
    if look.shown < look.wanted:
        yield "stale read", f"event {look.shown} was shown to who asked for {look.wanted}"


def _compare_rows(live: TableRows, rebuilt: TableRows) -> Iterator[PromiseViolation]:
    for table in sorted({*live, *rebuilt}):
        kept, made = live.get(table, ()), rebuilt.get(table, ())
        if list(kept) != list(made):
            differ = {*map(repr, kept)} ^ {*map(repr, made)}
            yield PromiseViolation(
                "rows", table, f"{len(differ)} rows are not what the log makes them"
            )
