"""The public test kit: given events or commands, when a command is issued, then these events.

All events pass through the codec, as on a real log, with ids and times that are the same in every
run. A test can therefore compare whole events, states and prompts. A running service must not
import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pydantic import JsonValue, TypeAdapter

from turnlog.events import codec
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import (
    AttemptCost,
    AttemptTimings,
    AttemptUsage,
    TokenUsage,
)
from turnlog.events.model.session_events import BlueprintRef
from turnlog.events.model.turn_events import FinishReason
from turnlog.events.registry import KnownEvent, format_event_name
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    AttemptRef,
    ClaimTurn,
    Command,
    CompleteTurn,
    OpenSession,
    SubmitTurn,
)
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.open_turn import OpenTurn
from turnlog.projections.session.rules.attempt_events import get_attempt_ref
from turnlog.projections.session.state import SessionState

TENANT: Final = "acme"
SESSION: Final = "s1"
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of the first event; each further event is recorded one second later."""
STREAM_OFFSET: Final = 1_000
"""Number of events of other sessions before this session's first event in the stream."""
DEFAULT_POLICIES: Final = Policies()
"""The policies of a blueprint that declares none."""
SAMPLE_SPENT: Final = AttemptUsage(
    usage=TokenUsage(known="reported", input_tokens=10, output_tokens=2),
    cost=AttemptCost(micro_dollars=5, price="exact", table="test-1"),
    timings=AttemptTimings(first_token=10, total=20),
)
"""Usage, cost and timings of an attempt, for tests to which the figures do not matter."""
STATE_ADAPTER: Final = TypeAdapter(SessionState)
"""Reads and writes the JSON form of a session state."""

CommandOrFactory = Command | Callable[[SessionState], Command]
"""A command, or a function that builds one from the current session state."""
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class KeyedCommand:
    """A command with an idempotency key."""

    command: CommandOrFactory
    key: str
    body: str = ""


ScenarioStep = KnownEvent | KeyedCommand | CommandOrFactory


@dataclass(frozen=True, slots=True)
class SessionScenario:
    """A session with the events recorded so far."""

    events: tuple[RecordedEvent, ...] = ()
    state: SessionState | None = None
    """The state after these events, folded as they were appended."""

    @property
    def now(self) -> datetime:
        """The time at which the next event is recorded."""
        return START + timedelta(seconds=len(self.events))

    def apply_steps(self, *steps: ScenarioStep) -> SessionScenario:
        """Apply further events or commands; raise `Refused` when a command is refused."""
        so_far = self
        for step in steps:
            if isinstance(step, KnownEvent):
                so_far = so_far.append_events(step)
            elif isinstance(step, KeyedCommand):
                command = codec.CommandRef(step.key, compute_digest(step.body))
                so_far = so_far.append_events(*so_far.when(step.command).events, command=command)
            else:
                so_far = so_far.append_events(*so_far.when(step).events)
        return so_far

    def append_events(
        self, *events: KnownEvent, command: codec.CommandRef | None = None
    ) -> SessionScenario:
        """Append events as one batch."""
        if not events:
            return self
        drafts = [self._build_draft(event, place, command) for place, event in enumerate(events)]
        head = self.events[-1].head if self.events else None
        batch = codec.encode_batch(TENANT, SESSION, head, drafts)
        stored = [codec.decode_event(m.payload, STREAM_OFFSET + m.sequence) for m in batch.messages]
        return SessionScenario((*self.events, *stored), fold(stored, self.state))

    def _build_draft(
        self, event: KnownEvent, index: int, command: codec.CommandRef | None
    ) -> codec.EventDraft:
        return codec.EventDraft(
            event=event,
            id=f"00000000-0000-4000-8000-{len(self.events) + index + 1:012d}",
            at=self.now + timedelta(seconds=index),
            source="/turnlog/testing",
            actor="tester",
            command=command,
        )

    def when(self, requested: CommandOrFactory, at: datetime | None = None) -> DecisionOutcome:
        """Decide a command against the current state, without recording the outcome."""
        command = requested if isinstance(requested, Command) else requested(self.opened_state)
        try:
            return DecisionOutcome(self, decide(self.state, command, at or self.now))
        except Refused as refusal:
            return DecisionOutcome(self, refusal)

    @property
    def opened_state(self) -> SessionState:
        """The state of the session; raises `AssertionError` when it was never opened."""
        if self.state is None:
            raise AssertionError("the session was never opened")
        return self.state

    def apply_projection(self, projection: Callable[[Sequence[RecordedEvent]], Shown]) -> Shown:
        """Return what a read projection makes of the events."""
        return projection(self.events)


def given(*steps: ScenarioStep) -> SessionScenario:
    """Start a session with these events and commands."""
    return SessionScenario().apply_steps(*steps)


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """The outcome of a command: events or a refusal."""

    before: SessionScenario
    answer: tuple[KnownEvent, ...] | Refused

    @property
    def events(self) -> tuple[KnownEvent, ...]:
        """The decided events; raises the refusal when there is one."""
        if isinstance(self.answer, Refused):
            raise self.answer
        return self.answer

    def then(self, *expected: KnownEvent) -> SessionScenario:
        """Expect exactly these events, record them and return the session."""
        if self.events != expected:
            actual_text, expected_text = (
                _format_events(events) for events in (self.events, expected)
            )
            raise AssertionError(f"what came:\n{actual_text}\nwhat was expected:\n{expected_text}")
        return self.before.append_events(*self.events)

    def then_names(self, *expected: str) -> SessionScenario:
        """Expect events with these names, record them and return the session."""
        names = tuple(format_event_name(event.type) for event in self.events)
        if names != expected:
            raise AssertionError(f"what came: {names}; what was expected: {expected}")
        return self.before.append_events(*self.events)

    def then_refused(self, code: str, field: str | None = None) -> Refused:
        """Expect a refusal with this code, and about this field where one is given."""
        if isinstance(self.answer, Refused):
            found = (self.answer.code, self.answer.field if field else None)
            if found != (code, field):
                raise AssertionError(f"refused with {found}, expected {(code, field)}")
            return self.answer
        raise AssertionError(f"it was not refused, what came:\n{_format_events(self.answer)}")


def _format_events(events: Sequence[KnownEvent]) -> str:
    return (
        "\n".join(f"  {format_event_name(event.type)} {event}" for event in events) or "  nothing"
    )


def open_session(*, reach: int = 0, **attributes: JsonValue) -> OpenSession:
    """Build the command that opens the session; `reach` 0 keeps every turn individually."""
    blueprint = BlueprintRef(name="assistant", version=1, digest=compute_digest("assistant"))
    return OpenSession(
        blueprint=blueprint, profile="chat", reach=reach, attributes=dict(attributes)
    )


def submit_turn(text: str, policies: Policies = DEFAULT_POLICIES) -> SubmitTurn:
    """Build the command that submits a turn."""
    return SubmitTurn(text=text, policies=policies)


def claim_turn(worker: str = "w1", policies: Policies = DEFAULT_POLICIES) -> CommandOrFactory:
    """Build the command that claims the open turn."""
    return lambda state: ClaimTurn(get_attempt(state).turn, worker, policies)


def complete_turn(text: str, finish: FinishReason = "stop") -> CommandOrFactory:
    """Build the command that completes the open turn by its current attempt."""
    return lambda state: CompleteTurn(
        attempt=get_attempt(state), text=text, finish=finish, spent=SAMPLE_SPENT
    )


def get_attempt(state: SessionState) -> AttemptRef:
    """Return the current attempt of the open turn."""
    return get_attempt_ref(get_open_turn(state))


def get_open_turn(state: SessionState) -> OpenTurn:
    """Return the open turn; raise `AssertionError` when there is none."""
    if state.open is None:
        raise AssertionError("no turn is open")
    return state.open


def build_exchange(text: str, reply: str) -> tuple[ScenarioStep, ...]:
    """Build the steps that submit a turn, claim it and complete it."""
    return submit_turn(text), claim_turn(), complete_turn(reply)
