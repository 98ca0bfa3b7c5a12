"""Inheritance of references: identifiers that a turn leaves out and takes from an earlier one.

The turn's own identifiers come first. A missing one is inherited from the last answered turn that
is not excluded, and only where the blueprint's policy lists the intent, allows the entity, and the
turn is recent enough. Every result says whether an identifier was inherited and why, or why not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from turnlog.events.model.turn_events import InheritableReference
from turnlog.projections.blueprint.schema.lookups.resolver_specs import (
    InheritanceSpec,
    ReferencesSpec,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.state import SessionState, TurnReference

InheritanceReason = Literal[
    "in-text",
    "inherited",
    "not-remembered",
    "not-enabled",
    "intent-not-listed",
    "entity-not-allowed",
    "no-reference",
    "too-old",
]
"""Why an identifier was or was not inherited; `in-text` means that the turn names its own."""


@dataclass(frozen=True, slots=True)
class StatedReferences:
    """The references that a turn states itself."""

    turn: int
    intent: str | None = None
    entity: str | None = None
    identifiers: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class ResolvedReferences:
    """The identifiers of a turn, stated and inherited."""

    identifiers: dict[str, JsonValue]
    is_inherited: bool
    """Whether any identifier was inherited."""
    reason: InheritanceReason


def find_last_reference(state: SessionState) -> TurnReference | None:
    """Return what the last answered turn was about that is not excluded from windows."""
    return next(
        (each for each in reversed(state.references) if not _is_excluded(state, each.turn)), None
    )


def _is_excluded(state: SessionState, turn: int) -> bool:
    settled = find_settled_turn(state, turn)
    return settled is not None and settled.excluded


def resolve_references(
    spec: ReferencesSpec | None, last: TurnReference | None, stated: StatedReferences
) -> ResolvedReferences:
    """Resolve the references of a turn; without a policy nothing is inherited."""
    own = {name: value for name, value in stated.identifiers.items() if not _is_empty(value)}
    if spec is None:
        return ResolvedReferences(own, is_inherited=False, reason="not-remembered")
    found, reasons = dict(own), list[InheritanceReason]()
    for name, rule in spec.inherit.items():
        if name in own:
            continue
        reasons.append(_find_reason(spec=spec, name=name, rule=rule, last=last, stated=stated))
        if reasons[-1] == "inherited" and last is not None:
            found[name] = last.identifiers[name]
    used = "inherited" in reasons
    if not reasons:
        return ResolvedReferences(found, used, "in-text")
    return ResolvedReferences(found, used, "inherited" if used else reasons[0])


def _find_reason(
    spec: ReferencesSpec,
    name: str,
    rule: InheritanceSpec,
    last: TurnReference | None,
    stated: StatedReferences,
) -> InheritanceReason:
    if not rule.enabled:
        return "not-enabled"
    if stated.intent not in rule.intents:
        return "intent-not-listed"
    if not spec.is_entity_allowed(stated.entity):
        return "entity-not-allowed"
    if last is None or name not in last.identifiers:
        return "no-reference"
    if spec.max_age_turns and stated.turn - last.turn > spec.max_age_turns:
        return "too-old"
    return "inherited"


def _is_empty(value: JsonValue) -> bool:
    return value in (None, "", [], {})


def find_inheritable_reference(
    state: SessionState, spec: ReferencesSpec | None
) -> InheritableReference | None:
    """Return what later turns may inherit of what the open turn is about; None if nothing.

    Nothing is inherited of what the resolver did not find.
    """
    opened = state.open
    if opened is None or opened.resolved is None or spec is None:
        return None
    resolution = opened.resolved
    if not resolution.found:
        return None
    kept = {
        name: resolution.identifiers[name]
        for name, rule in spec.inherit.items()
        if rule.enabled and not _is_empty(resolution.identifiers.get(name))
    }
    if not kept or not spec.is_entity_allowed(resolution.entity):
        return None
    return InheritableReference(
        identifiers=kept, intent=resolution.intent, entity=resolution.entity
    )
