"""Rules for callers: open, submit, cancel and close; exclude, restore, redact and display turns.

One turn is open at a time. The blueprint's `second_submit` policy decides what a second submit
does.
"""

from __future__ import annotations

from typing import assert_never

from turnlog.events.content import Plain
from turnlog.events.errors import Refused
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.session import SessionClosed, SessionOpened
from turnlog.events.turn import (
    TurnCancelled,
    TurnExcluded,
    TurnQueued,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.session.attempts import Events, ended_from_outside, released_next
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    ExcludeTurn,
    OpenSession,
    RedactReply,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.memory import fallen
from turnlog.projections.session.phasing import begun, still_open, takes_turns
from turnlog.projections.session.state import OpenTurn, Run, SessionState, TurnRef
from turnlog.projections.session.tooling import left_behind
from turnlog.projections.session.turns import status_of


def open_session(state: SessionState | None, command: OpenSession) -> Events:
    if state is not None:
        raise Refused(
            "session-exists",
            f"session {state.session} is open already",
            field="session",
            fix="leave the id out, or choose another",
        )
    graph = command.phases
    opened = SessionOpened(
        blueprint=command.blueprint,
        profile=graph.spec.profiles.get(graph.start, command.profile) if graph else command.profile,
        attributes=command.attributes,
        reach=command.reach,
        cartridge=command.cartridge,
        origin=command.origin,
        key=command.key,
        memory=command.memory,
        warnings=command.warnings,
    )
    return (opened, *begun(graph))


def submit(state: SessionState, command: SubmitTurn) -> Events:
    still_open(state)
    takes_turns(state, command)
    turn = state.submitted + 1
    said = {
        "turn": turn,
        "text": None if command.text is None else Plain(text=command.text),
        "inputs": command.inputs,
        "references": command.references,
        "meta": command.meta,
        "remembered": command.remembered,
    }
    if state.open is None:
        return (TurnSubmitted.model_validate(said),)
    match command.policies.second_submit:
        case "reject":
            raise Refused(
                "turn-open",
                f"turn {state.open.turn} is not answered yet",
                fix="wait for it, or cancel it",
            )
        case "queue":
            if len(state.waiting) >= command.policies.queue_limit:
                raise Refused(
                    "queue-full",
                    f"{len(state.waiting)} turns are waiting already",
                    fix="wait until one is answered",
                )
            return (TurnQueued.model_validate(said),)
        case "interrupt":
            given_up = TurnCancelled(turn=state.open.turn, reason="interrupted")
            submitted = TurnSubmitted.model_validate(said)
            return (*_given_up(state.open), given_up, submitted)
        case _ as never:
            assert_never(never)


def cancel(state: SessionState, command: CancelTurn) -> Events:
    waiting = any(waiting.turn == command.turn for waiting in state.waiting)
    if waiting and command.turn is not None:
        return (TurnCancelled(turn=command.turn, reason="cancelled"),)
    if state.open and command.turn in {None, state.open.turn}:
        given_up = TurnCancelled(turn=state.open.turn, reason="cancelled")
        return (*_given_up(state.open), given_up, *released_next(state))
    if command.turn is None or status_of(state, command.turn):
        raise Refused(
            "nothing-to-cancel", "no such turn is open", field="turn", fix="nothing is left to do"
        )
    raise _unknown_turn(command.turn)


def _given_up(opened: OpenTurn) -> Events:
    """End the attempt and the pending tools of a turn that is settled from outside."""
    return (*ended_from_outside(opened), *left_behind(opened))


def close_session(state: SessionState, command: CloseSession) -> Events:
    if state.closed:
        return ()
    ended = _given_up(state.open) if state.open else ()
    left = [*([state.open.turn] if state.open else []), *(w.turn for w in state.waiting)]
    cancelled = tuple(TurnCancelled(turn=turn, reason="closed") for turn in left)
    return (*ended, *cancelled, SessionClosed(reason=command.reason))


def _unknown_turn(turn: int) -> Refused:
    return Refused("unknown-turn", f"there is no turn {turn}", field="turn")


def _completed_turn(state: SessionState, turn: int) -> TurnRef | Run:
    found = status_of(state, turn)
    if found is None and 1 <= turn <= state.submitted:
        raise Refused("turn-open", f"turn {turn} is not settled", field="turn", fix="cancel it")
    if found is None:
        raise _unknown_turn(turn)
    if found.status != "completed":
        raise Refused("no-reply", f"turn {turn} was {found.status}", field="turn")
    return found


def mark(state: SessionState, command: ExcludeTurn | RestoreTurn) -> Events:
    found = _completed_turn(state, command.turn)
    wanted = isinstance(command, ExcludeTurn)
    if found.excluded == wanted:
        return ()
    if not wanted:
        return (TurnRestored(turn=command.turn),)
    return (TurnExcluded(turn=command.turn), *fallen(state, command.turn, "excluded"))


def redact(state: SessionState, command: RedactReply) -> Events:
    found = _completed_turn(state, command.turn)
    if found.redacted:
        raise Refused("already-redacted", f"the reply of turn {command.turn} is withheld already")
    return (
        ReplyRedacted(
            turn=command.turn,
            reason=command.reason,
            rule=command.rule,
            replacement=Plain(text=command.replacement),
        ),
        *fallen(state, command.turn, "redacted"),
    )
