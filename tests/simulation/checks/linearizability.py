"""Checks that every answer was true at some moment between its request and its arrival.

What was accepted and recorded is proved by the log. A refusal, or an acceptance without an effect,
is proved by no event: it has to follow from the state at some moment while the client waited. This
finds a gateway that decides by a lagging replica, and one that decides between two events that were
appended together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import compress

from tests.faults.clients.client_history import CommandTry
from tests.simulation.checks import media_checks
from tests.simulation.network.simulated_stream import SimulatedStream
from tests.simulation.processes.simulated_loop import START_TIME
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.tool_events import ApprovalDecided
from turnlog.projections.session.commands import Command, DecideApproval
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.rules.steps.approval_rules import check_decision
from turnlog.projections.session.state import SessionState


def find_untrue_answers(
    tries: Sequence[CommandTry],
    commands: Mapping[str, Command],
    events: Sequence[RecordedEvent],
    stored: SimulatedStream,
) -> Iterator[str]:
    """Return the answers to a session's commands that were true at no moment."""
    states: list[SessionState | None] = [None]
    for event in events:
        states.append(evolve(states[-1], event))
    batch_bounds = [True, *(_is_batch_start(event) for event in events[1:]), True]
    times = [stored.messages[event.stream_sequence - 1].at for event in events]
    recorded = {event.envelope.commandkey for event in events}
    for each in tries:
        if each.refused or (each.accepted and each.key not in recorded):
            first = sum(at <= START_TIME + timedelta(seconds=each.asked_at) for at in times)
            last = sum(at <= START_TIME + timedelta(seconds=each.told_at) for at in times)
            code = each.body["code"] if each.refused else None
            if code in {"approval-overdue", media_checks.MISSING_MEDIA}:
                continue  # A gateway's clock or the stored bytes make it true; no state has them.
            command = commands[each.key]
            seen = compress(range(first, last + 1), batch_bounds[first:])
            if code not in {_decide_answer(states[at], events[:at], command) for at in seen}:
                yield f"{each.key} ({each.body['what']}) was told {code}, which was true at no time"


def _is_batch_start(event: RecordedEvent) -> bool:
    """Tell whether an event was appended behind what lay there, and not as one with it."""
    return event.envelope.prevstreamseq is not None


def _decide_answer(
    state: SessionState | None, before: Sequence[RecordedEvent], command: Command
) -> str | None:
    """Return what a command leads to: a refusal's code, None for no effect, or "events"."""
    try:
        if isinstance(command, DecideApproval) and (decided := _find_decision(before, command)):
            # The simulated client edits nothing, so the arguments are those that were asked.
            asked = decided.approved or ""
            check_decision(command, decided.decision, decided.approved, asked=asked)
            return None
        return "events" if decide(state, command, START_TIME) else None
    except Refused as refused:
        return refused.code


def _find_decision(
    before: Sequence[RecordedEvent], command: DecideApproval
) -> ApprovalDecided | None:
    """Return what was decided, which is answered after the turn too; no state keeps it."""
    for recorded in before:
        match recorded.event:
            case ApprovalDecided(turn=command.turn, approval=command.approval) as decided:
                return decided
            case _:
                pass
    return None
