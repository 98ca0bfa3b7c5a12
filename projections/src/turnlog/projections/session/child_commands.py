"""Commands between the session of a coordinator and the sessions of its children."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.model.child_events import ChildOutcome, ParentInput
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.quotas.turn_bound import TurnBound


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitChildTurn:
    """Submit the turn in a child session that its parent requested."""

    turn: int
    """Its number, which the parent recorded."""
    text: str
    phase: str | None = None
    """The parent's phase, which the child is in as well."""
    phases: PhaseGraph | None = None
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    user: str | None = None
    """Who asked the parent."""
    bound: TurnBound | None = None
    """What the turn may use at most of the user's quota."""
    overrides: tuple[UserOverride, ...] = ()
    """The user's own prompts, as the parent's turn names them."""
    parent_inputs: tuple[ParentInput, ...] = ()
    """The inputs of the parent's turn that it is given."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the parent's turn that it is given."""


@dataclass(frozen=True, slots=True)
class WithdrawChildTurn:
    """Cancel the turn in a child session that its parent no longer waits for."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleChild:
    """Record the outcome of a child's turn in the parent."""

    session: str
    """Id of the child session."""
    child_turn: int
    outcome: ChildOutcome
    detail: str
    returned: ToolReturned
    """The result that the model reads."""
    fails_turn: bool = False
    """Whether the parent's turn fails with it."""
    failed_policy: CutTurnPolicy = "keep_partial"
    """What later prompts of the parent include of a turn that fails."""


ChildCommand = SubmitChildTurn | WithdrawChildTurn | SettleChild
