"""The public test kit: given what happened, when something is asked, then this comes of it.

What is given are events, or the commands that lead to them. All of it passes through the codec,
as on a real log, with ids and times that are the same in every run; so a test may say whole
events, whole states, whole prompts. Nothing in here belongs in a running service.
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
"""When the first event is recorded; every further one follows a second later."""
AHEAD: Final = 1_000
"""How many events of others lie before the session's first one in the stream."""
POLICIES: Final = Policies()
"""What a blueprint that says nothing of policies gets."""
SPENT: Final = Spent(
    Usage(known="reported", input_tokens=10, output_tokens=2),
    Cost(micro_dollars=5, price="exact", table="test-1"),
    Timings(first_token=10, total=20),
)
"""What an attempt costs where a test does not care."""
STATE: Final = TypeAdapter(SessionState)
"""Reads and writes the JSON of a state."""

Asked = Command | Callable[[SessionState], Command]
"""A command, or one that depends on the session as it then stands."""
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class Keyed:
    """A command that came with an idempotency key."""

    asked: Asked
    key: str
    body: str = ""


Step = KnownEvent | Keyed | Asked


@dataclass(frozen=True, slots=True)
class Given:
    """A session that has come so far."""

    events: tuple[Recorded, ...] = ()
    state: SessionState | None = None
    """The state after these events, folded as they came."""

    @property
    def now(self) -> datetime:
        """When the next event is recorded."""
        return START + timedelta(seconds=len(self.events))

    def later(self, *steps: Step) -> Given:
        """Go on; raises `Refused` when a command in there is."""
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
        """Record events as one batch."""
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
        """Ask something of the session; what comes of it is not recorded."""
        command = asked if isinstance(asked, Command) else asked(self.opened)
        try:
            return Answered(self, decide(self.state, command, at or self.now))
        except Refused as refusal:
            return Answered(self, refusal)

    @property
    def opened(self) -> SessionState:
        """The state of a session that was opened."""
        if self.state is None:
            raise AssertionError("the session was never opened")
        return self.state

    def seen_by(self, projection: Callable[[Sequence[Recorded]], Shown]) -> Shown:
        """Give what a read projection makes of these events."""
        return projection(self.events)


def given(*steps: Step) -> Given:
    """Begin a session with these steps."""
    return Given().later(*steps)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a command: events, or a refusal."""

    before: Given
    answer: tuple[KnownEvent, ...] | Refused

    @property
    def events(self) -> tuple[KnownEvent, ...]:
        """The events; raises the refusal if it was refused."""
        if isinstance(self.answer, Refused):
            raise self.answer
        return self.answer

    def then(self, *expected: KnownEvent) -> Given:
        """Expect exactly these events, and go on from there."""
        if self.events != expected:
            came, wanted = (_listed(events) for events in (self.events, expected))
            raise AssertionError(f"what came:\n{came}\nwhat was expected:\n{wanted}")
        return self.before.recorded(*self.events)

    def then_names(self, *expected: str) -> Given:
        """Expect events of these names, and go on from there."""
        names = tuple(name_of(event.type) for event in self.events)
        if names != expected:
            raise AssertionError(f"what came: {names}; what was expected: {expected}")
        return self.before.recorded(*self.events)

    def refused(self, code: str, field: str | None = None) -> Refused:
        """Expect a refusal with this code, about this field if one is named."""
        if isinstance(self.answer, Refused):
            found = (self.answer.code, self.answer.field if field else None)
            if found != (code, field):
                raise AssertionError(f"refused with {found}, expected {(code, field)}")
            return self.answer
        raise AssertionError(f"it was not refused, what came:\n{_listed(self.answer)}")


def _listed(events: Sequence[KnownEvent]) -> str:
    return "\n".join(f"  {name_of(event.type)} {event}" for event in events) or "  nothing"


def opening(*, reach: int = 0, **attributes: JsonValue) -> OpenSession:
    """Open the session; `reach` 0 keeps every turn one by one."""
    blueprint = BlueprintRef(name="assistant", version=1, digest=digest_of("assistant"))
    return OpenSession(blueprint, "chat", reach, dict(attributes))


def saying(text: str, policies: Policies = POLICIES) -> SubmitTurn:
    """Put a text to the session."""
    return SubmitTurn(text, policies)


def claiming(worker: str = "w1", policies: Policies = POLICIES) -> Asked:
    """Claim the open turn."""
    return lambda state: ClaimTurn(attempt_of(state).turn, worker, policies)


def answering(text: str, finish: Finish = "stop") -> Asked:
    """Answer the open turn by its current attempt."""
    return lambda state: CompleteTurn(attempt_of(state), text, finish, SPENT)


def attempt_of(state: SessionState) -> Attempt:
    """Name the current attempt of the open turn."""
    opened = open_turn(state)
    return Attempt(opened.turn, call_of(opened), opened.attempt)


def open_turn(state: SessionState) -> OpenTurn:
    """Give the open turn."""
    if state.open is None:
        raise AssertionError("no turn is open")
    return state.open


def exchange(text: str, reply: str) -> tuple[Step, ...]:
    """Say something and have it answered."""
    return saying(text), claiming(), answering(reply)
