"""The turn that a worker has taken up: one frozen value, which its steps pass on.

It is built once, where a delivered turn is taken up. A step that appends returns it with the state
after that. The attempt stays the same from the claim on, even if the state has a later one: an
attempt that lost its lease must not act, which `find_claimed_turn` checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnFailed
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import AttemptRef, Command
from turnlog.projections.session.open_turn import OpenTurn
from turnlog.projections.session.rules.attempt_events import find_claimed_turn, get_attempt_ref
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.platform.telemetry.traces import (
    get_traceparent,
    record_turn_blueprint,
    record_turn_failure,
)
from turnlog.services.sessions.command_handler import CommandHandler


class AttemptSuperseded(Exception):
    """The attempt has lost the lease of its turn; only its cost may still be recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """A turn in the hands of a worker."""

    state: SessionState
    """The session, as the worker last saw it."""
    attempt: AttemptRef
    """The latest attempt when the turn was taken up; from the claim on, the worker's own."""
    material: SessionMaterial
    by: CommandMetadata
    """On whose behalf and because of which event the worker appends."""

    @property
    def tenant(self) -> str:
        return self.state.tenant

    @property
    def session(self) -> str:
        return self.state.session

    @property
    def policies(self) -> Policies:
        """The policies of the session's profile."""
        return self.material.blueprint.resolve_policies(self.state.profile)

    @property
    def prior_attempts(self) -> int:
        """Number of earlier attempts at the call that the attempt is for."""
        return self.require_turn().call_attempts - 1

    @property
    def has_prior_calls(self) -> bool:
        """Whether earlier calls of the turn were answered."""
        return self.require_turn().call.before > 0

    def require_turn(self) -> OpenTurn:
        """Return the open turn; raise `AttemptSuperseded` if the attempt has not its lease."""
        opened = find_claimed_turn(self.state, self.attempt)
        if opened is None:
            raise AttemptSuperseded
        return opened

    def move_to(self, state: SessionState) -> TurnContext:
        """Return the context with a later state; the attempt stays the same."""
        return replace(self, state=state)

    def begin_attempt(self, state: SessionState, opened: OpenTurn) -> TurnContext:
        """Return the context of the attempt that the worker has just started in this state."""
        return replace(self, state=state, attempt=get_attempt_ref(opened))


def open_context(state: SessionState, opened: OpenTurn, material: SessionMaterial) -> TurnContext:
    """Return the context of the open turn of a state, under its latest attempt."""
    causation = opened.submission.event
    return TurnContext(
        state=state,
        attempt=get_attempt_ref(opened),
        material=material,
        by=CommandMetadata("worker", causation, traceparent=get_traceparent()),
    )


async def append_command(
    sessions: CommandHandler, context: TurnContext, command: Command
) -> TurnContext:
    """Carry out a command in the session of a turn; return the context with the state after it."""
    done = await sessions.handle(context.tenant, context.session, command, context.by)
    trace_failed_turn(done.events)
    return context.move_to(done.state)


def trace_failed_turn(events: Iterable[RecordedEvent]) -> None:
    """Mark the current span, which is that of a turn, as failed if one of these events fails it."""
    for recorded in events:
        if isinstance(recorded.event, TurnFailed):
            record_turn_failure(recorded.event.code)


def trace_opened_turn(context: TurnContext) -> None:
    """Name the current span by the blueprint that the session has now, for it answers the turn.

    That of a delivery which only finds the turn in other hands, or waiting, has no such name.
    """
    blueprint = context.material.blueprint
    record_turn_blueprint(blueprint.blueprint, blueprint.version, context.state.profile)
