"""Checks of a finished simulation against the log, the clients and the acknowledgements.

What a client history and a log can show is checked by the checker of `tests/faults`. Here is what
only a simulation can see: when a process knew what, which states it holds, what a model was asked
and when, and that everything finished in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from tests.faults.checks.checker import CheckedEvidence, PromiseViolation, check_evidence
from tests.faults.checks.settling_events import find_settling_events
from tests.faults.clients.client_history import ClientHistory
from tests.simulation.checks import (
    child_agreement,
    delivery_ownership,
    linearizability,
    media_checks,
)
from tests.simulation.checks.checkable_tries import EFFECTIVE_COMMANDS, filter_checkable
from tests.simulation.network.simulated_stream import SimulatedStream
from tests.simulation.processes.simulated_loop import START_TIME
from tests.simulation.processes.simulated_roles import TENANT
from tests.simulation.simulation import ACK_WAIT, Simulation
from turnlog.events.content import Digest, PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
    find_attempt_end,
)
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided
from turnlog.events.model.turn_events import ReplyAnswer, TurnCompleted, TurnReleased, TurnSubmitted
from turnlog.events.subjects import BLOBS_STREAM
from turnlog.projections.session.evolve import fold

CLOCK_DIFFERENCE: Final = 4.0
"""Seconds that two clocks may differ by."""


def find_faults(done: Simulation) -> list[str]:
    """Return every fault; an empty list where all is well."""
    log = done.log
    found = [f"{each.fault} {each.session}: {each.detail}" for each in _run_checker(done, log)]
    found += [f"broke: {each}" for each in done.complaints]
    found += [f"open: {session}" for session in done.open_sessions]
    for watcher in done.watchers:
        found += [f"watcher of {watcher.session} {watcher.turn}: {r}" for r in watcher.refused]
    found += _find_unequal_answers(done.history)
    for session, events in log.items():
        blueprint = done.materials[session].blueprint
        deadline = timedelta(seconds=blueprint.policies.deadline_seconds)
        for what in (
            *_find_late_turns(events, deadline, done.all_awake_at),
            *_check_attempts(events),
            *_check_heard_turns(session, done, events),
        ):
            found.append(f"{session}: {what}")
    found += _find_wrong_states(done, log)
    found += _find_unrecorded_requests(done, log)
    found += _find_invented_replies(done, log)
    found += _find_repeated_payments(done)
    commands = {key: command for client in done.clients for key, command in client.wanted.items()}
    for session, events in log.items():
        tries = [each for each in done.history.tries if each.session == session]
        found += linearizability.find_untrue_answers(tries, commands, events, done.server.sessions)
    found += _find_media_faults(done, log)
    found += child_agreement.find_child_faults(
        log, done.server.sessions, done.server.acknowledgements.sent
    )
    found += delivery_ownership.find_wrong_acknowledgements(
        done.server.acknowledgements.sent, done.server.sessions, log
    )
    return found


def _find_media_faults(
    done: Simulation, log: Mapping[str, Sequence[RecordedEvent]]
) -> Iterator[str]:
    stored: SimulatedStream = done.server.streams[BLOBS_STREAM]
    sent = {key: media for client in done.clients for key, media in client.sent_media.items()}
    for session, events in log.items():
        tries = [each for each in done.history.tries if each.session == session]
        for what in (
            *media_checks.find_lost_media(TENANT, events, stored),
            *media_checks.find_wrong_parts(sent, events),
            *media_checks.find_untrue_absences(TENANT, tries, sent, stored),
        ):
            yield f"{session}: {what}"


def _run_checker(
    done: Simulation, log: Mapping[str, Sequence[RecordedEvent]]
) -> Sequence[PromiseViolation]:
    tries = filter_checkable(done.history.tries, chain.from_iterable(log.values()))
    heard_replies = [each for each in done.history.heard if each.end == "done"]
    history = ClientHistory(tries, heard_replies)
    return check_evidence(
        CheckedEvidence(
            history=history, log=log, at=done.loop.read_clock(), blobs=_list_blobs(done)
        )
    )


def _list_blobs(done: Simulation) -> Mapping[Digest, str]:
    stored: SimulatedStream = done.server.streams[BLOBS_STREAM]
    # A chunk of a picture is no text, and nobody needs it as one.
    return {
        compute_digest(each.data): each.data.decode(errors="replace") for each in stored.messages
    }


def _find_unequal_answers(history: ClientHistory) -> Iterator[str]:
    answers: dict[str, object] = {}
    for each in history.tries:
        if not each.accepted or each.body["what"] not in EFFECTIVE_COMMANDS:
            continue
        if answers.setdefault(each.key, each.body) != each.body:
            yield f"{each.key} was told {answers[each.key]} and {each.body}"


def _find_late_turns(
    events: Sequence[RecordedEvent], deadline: timedelta, all_awake_at: float
) -> Iterator[str]:
    """Turns that were settled later than a worker that is not stopped could have settled them."""
    ends = find_settling_events(events)
    clear = START_TIME + timedelta(seconds=all_awake_at)
    patience = timedelta(seconds=3 * ACK_WAIT + CLOCK_DIFFERENCE)
    # The time in which a turn waits for a person or for children does not count.
    begun = {
        recorded.event.turn: recorded
        for recorded in events
        if isinstance(recorded.event, TurnSubmitted | TurnReleased | ApprovalDecided | ChildSettled)
    }
    for turn, recorded in begun.items():
        due = max(clear, _read_event_time(recorded) + deadline) + patience
        if turn in ends and _read_event_time(events[ends[turn][0] - 1]) > due:
            late = _read_event_time(events[ends[turn][0] - 1]) - due
            yield f"turn {turn} was settled {late} late"


def _read_event_time(recorded: RecordedEvent) -> datetime:
    return datetime.fromisoformat(recorded.envelope.time)


def _check_attempts(events: Sequence[RecordedEvent]) -> Iterator[str]:
    started: dict[int, int] = {}
    replied: dict[int, int] = {}
    digests: dict[int, Digest] = {}
    for recorded in events:
        if (end := find_attempt_end(recorded.event)) and end.outcome == "answered":
            if end.turn in replied:
                yield f"turn {end.turn} was answered by {replied[end.turn]} and {end.attempt}"
            if end.attempt != started.get(end.turn):
                yield f"attempt {end.attempt} of turn {end.turn} answered after it was superseded"
        match recorded.event:
            case AttemptStarted(turn=turn, attempt=attempt):
                if attempt != started.get(turn, 0) + 1:
                    yield f"attempt {attempt} of turn {turn} follows {started.get(turn, 0)}"
                started[turn] = attempt
            case CallCompleted(turn=turn, attempt=attempt, digest=digest, text=None):
                replied[turn], digests[turn] = attempt, digest
            case TurnCompleted(turn=turn, answer=ReplyAnswer(attempt=attempt)):
                replied[turn] = attempt
            case TurnCompleted(turn=turn, text=PlainText() as text):
                if digests.get(turn) != text.digest:
                    yield f"turn {turn} has another text than its call"
            case _:
                pass


def _check_heard_turns(
    session: str, done: Simulation, events: Sequence[RecordedEvent]
) -> Iterator[str]:
    ends = find_settling_events(events)
    for heard_reply in done.history.heard:
        if heard_reply.session == session and heard_reply.turn not in ends:
            yield f"a watcher was told that turn {heard_reply.turn} is {heard_reply.end}"


def _find_wrong_states(
    done: Simulation, log: Mapping[str, Sequence[RecordedEvent]]
) -> Iterator[str]:
    """States that a process holds and that the log does not make."""
    for role in done.roles:
        for state in role.sessions.state_cache.states:
            if state != fold(log[state.session][: state.head.sequence]):
                yield f"{role.process.name} holds another {state.session} than the log makes"


def _find_unrecorded_requests(
    done: Simulation, log: Mapping[str, Sequence[RecordedEvent]]
) -> Iterator[str]:
    stored = done.server.sessions
    fixed: dict[str, datetime] = {}
    for events in log.values():
        for each in events:
            if isinstance(each.event, ContextAssembled):
                at = stored.messages[each.stream_sequence - 1].at
                digest = each.event.manifest.digest
                fixed[digest] = min(at, fixed.get(digest, at))
    for worker in done.workers:
        for at, digest in worker.model.requests:
            if digest not in fixed or fixed[digest] > at:
                yield f"a model was asked by {worker.turn_runner.name} what is not on the log"


def _find_invented_replies(
    done: Simulation, log: Mapping[str, Sequence[RecordedEvent]]
) -> Iterator[str]:
    replies = {text for worker in done.workers for text in worker.model.completed_texts}
    for session, events in log.items():
        for each in events:
            match each.event:
                case TurnCompleted(turn=turn, text=PlainText(text=text)) if text not in replies:
                    yield f"{session}: no model ever said the reply of turn {turn}"
                case _:
                    pass


def _find_repeated_payments(done: Simulation) -> Iterator[str]:
    """Tools that ran twice, by any workers, and must not."""
    runs = Counter(
        run for worker in done.workers for run in worker.tool_server.runs if run[0] == "pay"
    )
    yield from (
        f"order {order} was paid {times} times" for (_, order), times in runs.items() if times > 1
    )
