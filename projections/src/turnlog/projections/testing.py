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
from turnlog.events.call import Cost, Timings, Usage
from turnlog.events.content import digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.kinds import KnownEvent, name_of
from turnlog.events.session import BlueprintRef
from turnlog.events.turn import Finish
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.attempts import call_of
from turnlog.projections.session.commands import (
    Attempt,
    ClaimTurn,
    Command,
    CompleteTurn,
    OpenSession,
    Spent,
    SubmitTurn,
)
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import OpenTurn, SessionState

TENANT: Final = "acme"
SESSION: Final = "s1"
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of the first event; each further event is recorded one second later."""
AHEAD: Final = 1_000
"""Number of events of other sessions before this session's first event in the stream."""
POLICIES: Final = Policies()
"""The policies of a blueprint that declares none."""
SPENT: Final = Spent(
    Usage(known="reported", input_tokens=10, output_tokens=2),
    Cost(micro_dollars=5, price="exact", table="test-1"),
    Timings(first_token=10, total=20),
)
"""Usage, cost and timings of an attempt, for tests to which the figures do not matter."""
STATE: Final = TypeAdapter(SessionState)
"""Reads and writes the JSON form of a session state."""

Asked = Command | Callable[[SessionState], Command]
"""A command, or a function that builds one from the current session state."""
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class Keyed:
    """A command with an idempotency key."""

    asked: Asked
    key: str
    body: str = ""


Step = KnownEvent | Keyed | Asked


@dataclass(frozen=True, slots=True)
class Given:
    """A session with the events recorded so far."""

    events: tuple[Recorded, ...] = ()
    state: SessionState | None = None
    """The state after these events, folded as they were appended."""

    @property
    def now(self) -> datetime:
        """The time at which the next event is recorded."""
        return START + timedelta(seconds=len(self.events))

    def later(self, *steps: Step) -> Given:
        """Apply further events or commands; raise `Refused` when a command is refused."""
        so_far = self
        for step in steps:
            if isinstance(step, KnownEvent):
                so_far = so_far.recorded(step)
            elif isinstance(step, Keyed):
                command = codec.Command(step.key, digest_of(step.body))
                so_far = so_far.recorded(*so_far.when(step.asked).events, command=command)
            else:
                so_far = so_far.recorded(*so_far.when(step).events)
        return so_far

    def recorded(self, *events: KnownEvent, command: codec.Command | None = None) -> Given:
        """Append events as one batch."""
        if not events:
            return self
        drafts = [self._draft(event, place, command) for place, event in enumerate(events)]
        head = self.events[-1].head if self.events else None
        batch = codec.write(TENANT, SESSION, head, drafts)
        stored = [codec.read(m.payload, AHEAD + m.sequence) for m in batch.messages]
        return Given((*self.events, *stored), fold(stored, self.state))

    def _draft(self, event: KnownEvent, place: int, command: codec.Command | None) -> codec.Draft:
        return codec.Draft(
            event=event,
            id=f"00000000-0000-4000-8000-{len(self.events) + place + 1:012d}",
            at=self.now + timedelta(seconds=place),
            source="/turnlog/testing",
            actor="tester",
            command=command,
        )

    def when(self, asked: Asked, at: datetime | None = None) -> Answered:
        """Decide a command against the current state, without recording the outcome."""
        command = asked if isinstance(asked, Command) else asked(self.opened)
        try:
            return Answered(self, decide(self.state, command, at or self.now))
        except Refused as refusal:
            return Answered(self, refusal)

    @property
    def opened(self) -> SessionState:
        """The state of the session; raises `AssertionError` when it was never opened."""
        if self.state is None:
            raise AssertionError("the session was never opened")
        return self.state

    def seen_by(self, projection: Callable[[Sequence[Recorded]], Shown]) -> Shown:
        """Return what a read projection makes of the events."""
        return projection(self.events)


def given(*steps: Step) -> Given:
    """Start a session with these events and commands."""
    return Given().later(*steps)


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a command: events or a refusal."""

    before: Given
    answer: tuple[KnownEvent, ...] | Refused

    @property
    def events(self) -> tuple[KnownEvent, ...]:
        """The decided events; raises the refusal when there is one."""
        if isinstance(self.answer, Refused):
            raise self.answer
        return self.answer

    def then(self, *expected: KnownEvent) -> Given:
        """Expect exactly these events, record them and return the session."""
        if self.events != expected:
            came, wanted = (_listed(events) for events in (self.events, expected))
            raise AssertionError(f"what came:\n{came}\nwhat was expected:\n{wanted}")
        return self.before.recorded(*self.events)

    def then_names(self, *expected: str) -> Given:
        """Expect events with these names, record them and return the session."""
        names = tuple(name_of(event.type) for event in self.events)
        if names != expected:
            raise AssertionError(f"what came: {names}; what was expected: {expected}")
        return self.before.recorded(*self.events)

    def refused(self, code: str, field: str | None = None) -> Refused:
        """Expect a refusal with this code, and about this field where one is given."""
        if isinstance(self.answer, Refused):
            found = (self.answer.code, self.answer.field if field else None)
            if found != (code, field):
                raise AssertionError(f"refused with {found}, expected {(code, field)}")
            return self.answer
        raise AssertionError(f"it was not refused, what came:\n{_listed(self.answer)}")


def _listed(events: Sequence[KnownEvent]) -> str:
    return "\n".join(f"  {name_of(event.type)} {event}" for event in events) or "  nothing"


def opening(*, reach: int = 0, **attributes: JsonValue) -> OpenSession:
    """Build the command that opens the session; `reach` 0 keeps every turn individually."""
    blueprint = BlueprintRef(name="assistant", version=1, digest=digest_of("assistant"))
    return OpenSession(blueprint, "chat", reach, dict(attributes))


def saying(text: str, policies: Policies = POLICIES) -> SubmitTurn:
    """Build the command that submits a turn."""
    return SubmitTurn(text, policies)


def claiming(worker: str = "w1", policies: Policies = POLICIES) -> Asked:
    """Build the command that claims the open turn."""
    return lambda state: ClaimTurn(attempt_of(state).turn, worker, policies)


def answering(text: str, finish: Finish = "stop") -> Asked:
    """Build the command that completes the open turn by its current attempt."""
    return lambda state: CompleteTurn(attempt_of(state), text, finish, SPENT)


def attempt_of(state: SessionState) -> Attempt:
    """Return the current attempt of the open turn."""
    opened = open_turn(state)
    return Attempt(opened.turn, call_of(opened), opened.attempt)


def open_turn(state: SessionState) -> OpenTurn:
    """Return the open turn; raise `AssertionError` when there is none."""
    if state.open is None:
        raise AssertionError("no turn is open")
    return state.open


def exchange(text: str, reply: str) -> tuple[Step, ...]:
    """Build the steps that submit a turn, claim it and complete it."""
    return saying(text), claiming(), answering(reply)
