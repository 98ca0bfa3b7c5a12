"""Why a turn was answered as it was: what its call was told, by whom, and what came of it.

It is computed from the session's events alone. Whether the prompt reads back as it was sent is
not decided here; that is for whoever can fetch its texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Content
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.projections.audit.consequences import Consequence, consequences
from turnlog.projections.audit.origins import Cause, PartOrigin, cause, origin
from turnlog.projections.history import Status, Turn, history
from turnlog.projections.session.evolve import fold
from turnlog.projections.verify import call_in, calls_in


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stood in its state machine when a call was made."""

    phase: str
    since: Cause
    """The event that entered the phase."""
    signal: str | None
    """What led to it."""
    exchanges: int
    """Turns completed in it before."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A reply that was withheld, and by what."""

    by: Cause
    rule: str
    reason: str
    replacement: Content
    kept: bool
    """Whether the withheld text is a blob of its own, which the audit role alone reads."""


@dataclass(frozen=True, slots=True)
class Why:
    """All there is to say about one turn's reply."""

    session: str
    turn: int
    status: Status
    said: Content | None
    """What was put to the session; none where the turn started by itself."""
    asked: Cause
    """The event that submitted the turn."""
    started: Cause | None
    """The entry of a phase that speaks by itself, where that started the turn."""
    call: str
    """The call that was answered, or the last one made."""
    superseded: tuple[str, ...]
    """Calls of the turn that it stands in for."""
    fixed: Cause
    """The event that fixed its prompt."""
    standing: Standing | None
    """None where the session has no phases."""
    parts: tuple[PartOrigin, ...]
    """In the order of the prompt, those left out included."""
    reply: Content | None
    """What was answered, or what stands in its place."""
    finish: str | None
    withheld: Withheld | None
    consequences: tuple[Consequence, ...]


def why(events: Sequence[Recorded], turn: int) -> Why:
    """Explain a turn; raises `Refused` where there is none, or where no prompt was made for it."""
    told = {each.turn: each for each in history(events)}
    if turn not in told:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    return _explained(events, told[turn], *_call(events, told[turn]))


def why_call(events: Sequence[Recorded], call: str) -> Why:
    """Explain one call of a turn, whether it was answered or not; refuses one never made."""
    fixed, made = call_in(events, call)
    told = next(each for each in history(events) if each.turn == made.turn)
    return _explained(events, told, fixed, made)


def _explained(
    events: Sequence[Recorded], told: Turn, fixed: Recorded, call: ContextAssembled
) -> Why:
    known = [each for each in events if each.sequence <= call.manifest.sequence]
    asked = next(each for each in events if each.sequence == told.sequence)
    return Why(
        session=fixed.session,
        turn=told.turn,
        status=told.status,
        said=told.text,
        asked=cause(asked),
        started=_started(events, told),
        call=call.call,
        superseded=_superseded(events, fixed, told.turn),
        fixed=cause(fixed),
        standing=_standing(known),
        parts=tuple(origin(part, known) for part in call.manifest.parts),
        reply=told.reply,
        finish=told.finish,
        withheld=_withheld(events, told.turn),
        consequences=tuple(consequences(events, told.turn)),
    )


def _calls(events: Sequence[Recorded], turn: int) -> list[tuple[Recorded, ContextAssembled]]:
    return [(each, call) for each, call in calls_in(events) if call.turn == turn]


def _call(events: Sequence[Recorded], turn: Turn) -> tuple[Recorded, ContextAssembled]:
    made = _calls(events, turn.turn)
    if not made:
        detail = f"turn {turn.turn} is {turn.status}, and no prompt was made for it"
        raise Refused("unknown-call", detail, field="turn", fix="name a turn that was answered")
    answered = [pair for pair in made if pair[1].call == turn.call]
    return (answered or made)[-1]


def _superseded(events: Sequence[Recorded], fixed: Recorded, turn: int) -> tuple[str, ...]:
    before = (call.call for at, call in _calls(events, turn) if at.sequence < fixed.sequence)
    return tuple(before)


def _started(events: Sequence[Recorded], turn: Turn) -> Cause | None:
    entries = [each for each in events if each.sequence == turn.sequence - 1]
    if turn.text is None and entries and isinstance(entries[0].event, PhaseEntered):
        return cause(entries[0])
    return None


def _standing(known: Sequence[Recorded]) -> Standing | None:
    state = fold(known)
    entries = [(each, each.event) for each in known if isinstance(each.event, PhaseEntered)]
    if state is None or not entries:
        return None
    recorded, entered = entries[-1]
    return Standing(entered.phase, cause(recorded), entered.signal, state.exchanges)


def _withheld(events: Sequence[Recorded], turn: int) -> Withheld | None:
    for recorded in events:
        match recorded.event:
            case ReplyRedacted() as event if event.turn == turn:
                kept = event.withheld is not None
                by = cause(recorded)
                return Withheld(by, event.rule, event.reason, event.replacement, kept)
            case _:
                pass
    return None
