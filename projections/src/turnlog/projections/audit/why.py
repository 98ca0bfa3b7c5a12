"""Explains a turn: what its call contained, from which events, and what it led to.

The explanation is computed from the session's events alone, and loads no more of them than needed.
It does not check that the prompt reads back as it was sent; that takes the texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Content
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.manifest import StepTaken
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.projections.audit.calls import calls_in
from turnlog.projections.audit.consequences import Consequence, consequences
from turnlog.projections.audit.fates import fates
from turnlog.projections.audit.known import Known
from turnlog.projections.audit.making import CallMade, making
from turnlog.projections.audit.origins import Cause, PartOrigin, cause, origin
from turnlog.projections.audit.sides import Side, side_of
from turnlog.projections.history import Status, Turn, history


@dataclass(frozen=True, slots=True)
class Standing:
    """The phase of a session when a call was made."""

    phase: str
    since: Cause
    """The event that entered the phase."""
    signal: str | None
    """The signal that caused the change of phase."""
    exchanges: int
    """Number of turns completed in the phase before the call."""
    shared: tuple[str, ...] = ()
    """Phases whose turns this phase may see, where phases are kept apart."""
    hidden: tuple[str, ...] = ()
    """Earlier phases of the session that this phase may not see."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A withheld reply and the event that withheld it."""

    by: Cause
    rule: str
    reason: str
    replacement: Content
    kept: bool
    """Whether the withheld text is kept as a blob, which only the audit role can read."""


@dataclass(frozen=True, slots=True)
class Why:
    """Everything there is to explain about one turn's reply."""

    session: str
    turn: int
    status: Status
    said: Content | None
    """The text of the submitted turn; None if the turn started by itself."""
    asked: Cause
    """The event that submitted the turn."""
    started: Cause | None
    """The event that entered a phase and so started the turn by itself, if one did."""
    call: str
    """The call that gave the reply, or else the last one made."""
    calls: tuple[CallMade, ...]
    """All calls of the turn, in order; the reader sees only the reply of the last one."""
    superseded: tuple[str, ...]
    """Calls of the turn that this call replaced."""
    fixed: Cause
    """The event that fixed the prompt."""
    standing: Standing | None
    """None if the session has no phases."""
    parts: tuple[PartOrigin, ...]
    """In prompt order, including the parts that were left out."""
    steps: tuple[StepTaken, ...]
    """The ladder steps that made the prompt fit, in order."""
    budget: int | None
    """The token budget of the prompt."""
    tokens: int
    """The number of tokens in the prompt."""
    reply: Content | None
    """The reply, or its replacement."""
    finish: str | None
    withheld: Withheld | None
    consequences: tuple[Consequence, ...]


def why(record: Known, turn: int, library: Iterable[Recorded] = ()) -> Why:
    """Explain a turn; raise `Refused` if there is no such turn or no prompt was made for it."""
    told = _told(record, turn)
    _, call = _call(record, told)
    return _explained(told, side_of(record, call.call, library))


def why_call(record: Known, call: str, library: Iterable[Recorded] = ()) -> Why:
    """Explain one call of a turn, answered or not; refuse a call that was never made."""
    side = side_of(record, call, library)
    return _explained(_told(record, side.call.turn), side)


def _told(record: Known, turn: int) -> Turn:
    """Return a turn with everything that happened to it."""
    submitted = 0 if record.whole else record.state().submitted
    if fates(record, submitted).get(turn) is None:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    return next(each for each in history(record.events) if each.turn == turn)


def _explained(told: Turn, side: Side) -> Why:
    manifest, record = side.manifest, side.record
    return Why(
        session=side.recorded.session,
        turn=told.turn,
        status=told.status,
        said=told.text,
        asked=cause(side.asked.begun),
        started=_started(record, told),
        call=side.call.call,
        calls=making(record, told.turn),
        superseded=_superseded(record, side.call),
        fixed=cause(side.recorded),
        standing=_standing(side),
        parts=tuple(origin(part, side) for part in manifest.parts),
        steps=manifest.steps,
        budget=manifest.budget,
        tokens=manifest.tokens,
        reply=told.reply,
        finish=told.finish,
        withheld=_withheld(record, told.turn),
        consequences=tuple(consequences(record, told.turn)),
    )


def _calls(record: Known, turn: int) -> list[tuple[Recorded, ContextAssembled]]:
    return [(each, call) for each, call in calls_in(record.events) if call.turn == turn]


def _call(record: Known, turn: Turn) -> tuple[Recorded, ContextAssembled]:
    made = _calls(record, turn.turn)
    if not made:
        detail = f"turn {turn.turn} is {turn.status}, and no prompt was made for it"
        raise Refused("unknown-call", detail, field="turn", fix="name a turn that was answered")
    answered = [pair for pair in made if pair[1].call == turn.call]
    return (answered or made)[-1]


def _superseded(record: Known, call: ContextAssembled) -> tuple[str, ...]:
    """Return the calls that this one replaced, the first of them first."""
    stood_for = {made.call: made.supersedes for _, made in _calls(record, call.turn)}
    found: list[str] = []
    before = call.supersedes
    while before is not None and before not in found:
        found.insert(0, before)
        before = stood_for.get(before)
    return tuple(found)


def _started(record: Known, turn: Turn) -> Cause | None:
    before = record.at(turn.sequence - 1) if turn.text is None else None
    return cause(before) if before and isinstance(before.event, PhaseEntered) else None


def _standing(side: Side) -> Standing | None:
    recorded = side.entered
    if recorded is None or not isinstance(recorded.event, PhaseEntered):
        return None
    entered = recorded.event
    return Standing(
        entered.phase,
        cause(recorded),
        entered.signal,
        side.state.exchanges,
        entered.shared,
        entered.hidden,
    )


def _withheld(record: Known, turn: int) -> Withheld | None:
    for recorded in record.events:
        match recorded.event:
            case ReplyRedacted() as event if event.turn == turn:
                kept = event.withheld is not None
                by = cause(recorded)
                return Withheld(by, event.rule, event.reason, event.replacement, kept)
            case _:
                pass
    return None
