"""The checker finds each planted fault by its name, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from tests.faults.checks.checker import CheckedEvidence, check_evidence
from tests.faults.clients.client_history import ClientHistory, CommandTry, HeardReply, ReadResult
from turnlog.events.codec import CommandRef
from turnlog.events.content import PlainText
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import ReplyAnswer, TurnCompleted, TurnFailed
from turnlog.events.registry import KnownEvent
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    SESSION,
    START,
    KeyedCommand,
    ScenarioStep,
    SessionScenario,
    claim_turn,
    complete_turn,
    given,
    open_session,
    submit_turn,
)

Kind = TypeVar("Kind", bound=KnownEvent)
TWO_TURNS = given(
    KeyedCommand(open_session(), "open"),
    *(KeyedCommand(submit_turn("One"), "k-1"), claim_turn(), complete_turn("So: One")),
    *(KeyedCommand(submit_turn("Two"), "k-2"), claim_turn(), complete_turn("So: Two")),
)
TRIES = [
    CommandTry(
        session=SESSION,
        what="open",
        key="open",
        text=None,
        asked_at=0,
        told_at=1,
        status=201,
        body={"sequence": 1},
    ),
    CommandTry(
        session=SESSION, what="submit", key="k-1", text="One", asked_at=2, told_at=3, status=None
    ),
    CommandTry(
        session=SESSION,
        what="submit",
        key="k-1",
        text="One",
        asked_at=3,
        told_at=4,
        status=202,
        body={"turn": 1, "sequence": 2},
    ),
    CommandTry(
        session=SESSION,
        what="submit",
        key="k-2",
        text="Two",
        asked_at=5,
        told_at=6,
        status=202,
        body={"turn": 2, "sequence": 5},
    ),
]
ROW: tuple[object, ...] = (SESSION, 2)

HEARD = HeardReply(SESSION, 2, "So: Two", "done")
MORE: tuple[ScenarioStep, ...] = (claim_turn(), complete_turn("So: One"))


def reply_to(text: str) -> str:
    return f"So: {text}"


def build_evidence(
    session: SessionScenario = TWO_TURNS,
    tries: Sequence[CommandTry] = TRIES,
    heard_reply: HeardReply = HEARD,
    read_sequence: int = 7,
) -> CheckedEvidence:
    history = ClientHistory(list(tries), [heard_reply], [ReadResult(SESSION, 7, read_sequence)])
    rows = {"turns": [ROW]}
    at = START + timedelta(hours=1)
    log = {SESSION: session.events}
    return CheckedEvidence(
        history=history, log=log, at=at, live=rows, rebuilt=rows, reply_to=reply_to
    )


def replace_try(number: int, **changes: object) -> list[CommandTry]:
    """Return the tries, one of them with other fields."""
    return [replace(t, **changes) if at == number else t for at, t in enumerate(TRIES)]  # type: ignore[arg-type]


def remove_event(sequence: int) -> SessionScenario:
    events = tuple(each for each in TWO_TURNS.events if each.sequence != sequence)
    return replace(TWO_TURNS, events=events)


def replace_events(kind: type[Kind], **changes: object) -> SessionScenario:
    """Write the session as a faulty writer would: some events are other ones, the chain holds."""
    written = given()
    for recorded in TWO_TURNS.events:
        event, envelope = recorded.event, recorded.envelope
        assert isinstance(event, KnownEvent)
        changed = event.model_copy(update=changes) if isinstance(event, kind) else event
        key, digest = envelope.commandkey, envelope.commandhash
        written = written.append_events(
            changed, command=CommandRef(key, digest) if key and digest else None
        )
    return written


def replace_spent(**changes: object) -> SessionScenario:
    answer = ReplyAnswer(attempt=1, spent=SAMPLE_SPENT.model_copy(update=changes))
    return replace_events(TurnCompleted, answer=answer)


def alter_text() -> SessionScenario:
    first, *others = TWO_TURNS.events
    return replace(TWO_TURNS, events=(replace(first, stored=b"{}"), *others))


def test_checker_reports_nothing_for_faultless_evidence() -> None:
    assert check_evidence(build_evidence()) == ()


FREE = AttemptCost(micro_dollars=0, price="exact", table="t")
UNKNOWN = TokenUsage(known="unknown")
LATE = TurnFailed(turn=2, code="late", detail="late", retryable=True)
LOOK: dict[str, Any] = {"turn": 2, "call": "2.1", "id": "t1", "tool": "shop_look"}
CALLED = ToolCalled(**LOOK, arguments="{}")
STARTED = ToolStarted(**LOOK, attempt=1)
RETURNED = ToolReturned(**LOOK, outcome="answered")
LOST = ToolReturned(**LOOK, outcome="lost")
STEP = CALLED.model_copy(update={"step": 1})
AGAIN = STEP.model_copy(update={"call": "2.2"})
RETURNED_AGAIN = RETURNED.model_copy(update={"call": "2.2"})
EARLY = {"asked_at": 0.5, "told_at": 1.5}
PLANTED = {
    "a tool that never came back": ("tools", build_evidence(TWO_TURNS.apply_steps(CALLED))),
    "a tool that came back twice": (
        "tools",
        build_evidence(TWO_TURNS.apply_steps(CALLED, RETURNED, RETURNED)),
    ),
    "a tool that was begun once more": (
        "tools",
        build_evidence(TWO_TURNS.apply_steps(CALLED, STARTED, STARTED, RETURNED)),
    ),
    "a step that was taken once more although its tool may have been done": (
        "tools",
        build_evidence(TWO_TURNS.apply_steps(STEP, STARTED, LOST, AGAIN, RETURNED_AGAIN)),
    ),
    "an accepted turn that is not on the log": (
        "lost",
        build_evidence(given(KeyedCommand(open_session(), "open"))),
    ),
    "an accepted session that is not on the log": ("lost", replace(build_evidence(), log={})),
    "a command that nobody sent": (
        "invented",
        build_evidence(TWO_TURNS.apply_steps(KeyedCommand(submit_turn("One"), "k-3"), *MORE)),
    ),
    "a command carried out twice": (
        "doubled",
        build_evidence(TWO_TURNS.apply_steps(KeyedCommand(submit_turn("One"), "k-1"), *MORE)),
    ),
    "a refused command that is on the log": (
        "untrue answer",
        build_evidence(tries=replace_try(3, status=409)),
    ),
    "another turn than was told": (
        "untrue answer",
        build_evidence(tries=replace_try(3, body={"turn": 1, "sequence": 5})),
    ),
    "another event than was told": (
        "untrue answer",
        build_evidence(tries=replace_try(3, body={"turn": 2, "sequence": 6})),
    ),
    "another text than was sent": (
        "untrue answer",
        build_evidence(tries=replace_try(3, text="Too")),
    ),
    "a turn behind one that was asked for later": (
        "reordered",
        build_evidence(tries=replace_try(3, **EARLY)),
    ),
    "a hole in the sequence": ("gap", build_evidence(remove_event(4))),
    "an event of other bytes": ("unproven", build_evidence(alter_text())),
    "a turn settled twice": ("two answers", build_evidence(TWO_TURNS.append_events(LATE))),
    "a read older than it was to be": ("stale read", build_evidence(read_sequence=6)),
    "a turn that nobody ends": (
        "overdue",
        build_evidence(TWO_TURNS.apply_steps(submit_turn("Three"))),
    ),
    "a cost of nothing": ("cost", build_evidence(replace_spent(cost=FREE))),
    "a cost of unknown tokens": ("cost", build_evidence(replace_spent(usage=UNKNOWN))),
    "an attempt whose cost is nowhere": (
        "cost",
        build_evidence(replace_events(TurnCompleted, answer=None)),
    ),
    "the reply to another turn": (
        "wrong reply",
        build_evidence(replace_events(TurnCompleted, text=PlainText(text="So: One"))),
    ),
    "tokens that do not make the reply": (
        "tokens",
        build_evidence(heard_reply=replace(HEARD, text="So: ")),
    ),
    "an end that was not the turn's": (
        "tokens",
        build_evidence(heard_reply=replace(HEARD, end="failed")),
    ),
    "rows that the log does not make": (
        "rows",
        replace(build_evidence(), live={"turns": [ROW, ROW]}),
    ),
}


@pytest.mark.parametrize(("fault", "planted"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_reported_by_its_name(fault: str, planted: CheckedEvidence) -> None:
    assert fault in {finding.fault for finding in check_evidence(planted)}
