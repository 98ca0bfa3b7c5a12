"""The budget of a call, and how its tokens are counted: both follow what its provider has said.

Counts are corrected by the factor that an earlier call of the session measured, so every limit of a
blueprint is one of the provider's tokens. Once the provider has refused a prompt as too long, the
budget is lowered to what the model takes, and it is never larger than what a file of dialects says
the model takes. A call without a budget has one then, whose ladder drops the oldest turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.events.model.manifest import CounterRef
from turnlog.projections.blueprint.schema.budget_specs import (
    MAX_LIMIT,
    BudgetSpec,
    DropOldestPairs,
    LadderStep,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.token_counters import TokenCounter, build_call_counter
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    has_corrected_counts,
    has_corrections_by_model,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.token_counts import (
    CountCorrection,
    ModelLimit,
    find_smaller_limit,
)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The budget of a call, its counter, and what its model is known to take."""

    budget: BudgetSpec | None
    counting: TokenCounter
    correction: CountCorrection | None = None
    """What the provider's counts have shown; None if they have shown nothing."""
    model_limit: ModelLimit | None = None
    """None if the provider refused no prompt as too long, and no file of dialects has a limit."""

    def find_prompt_limit(self, inputs: Mapping[str, JsonValue]) -> int | None:
        """Return the tokens that a ladder shortens a prompt to; None if nothing limits it."""
        if self.budget is None:
            return None
        return resolve_prompt_limit(self.budget, self.model_limit, inputs)

    @property
    def counter(self) -> CounterRef:
        """The counter as the manifest records it."""
        counter = self.counting.counter
        if self.correction is None or self.correction.measured_in is None:
            return counter
        return counter.model_copy(update={"measured_in": self.correction.measured_in})


def resolve_prompt_limit(
    budget: BudgetSpec, model_limit: ModelLimit | None, inputs: Mapping[str, JsonValue]
) -> int:
    """Return the token limit of the whole prompt: of its budget, or of its model if smaller."""
    tokens = resolve_limit(budget.tokens, inputs)
    return min(tokens, model_limit.tokens) if model_limit else tokens


def resolve_largest_prompt(
    budget: BudgetSpec, model_limit: ModelLimit | None, inputs: Mapping[str, JsonValue]
) -> int:
    """Return the limit of a prompt that the ladder cannot make short enough."""
    tokens = budget.resolve_largest(inputs)
    return min(tokens, model_limit.largest) if model_limit else tokens


def find_call_limits(
    material: SessionMaterial,
    state: SessionState,
    kind: str,
    model: str,
    assembler: int = ASSEMBLER_VERSION,
    *,
    context_tokens: int | None,
    is_corrected: bool = True,
) -> CallLimits:
    """Return the limits of a kind of call: as the session knows them, or as its blueprint says.

    `context_tokens` is what the model takes by a file of dialects; None if none says so. It has no
    default, so that whatever depends on a limit has the one of the prompt that is sent.
    """
    stated = ModelLimit(context_tokens, context_tokens) if context_tokens is not None else None
    budget = material.blueprint.budget.get(material.blueprint.calls[kind].budget or "")
    counting = build_call_counter(budget, material.vocabularies, model)
    correction = _find_correction(state, kind, model, assembler) if is_corrected else None
    if correction is None or correction.counter != counting.counter.name:
        return CallLimits(_require_budget(budget, stated, material, kind), counting, None, stated)
    corrected = build_call_counter(budget, material.vocabularies, model, correction.factor)
    is_retry = state.open is not None and state.open.has_overflowed
    limit = find_smaller_limit(correction.find_model_limit(is_retry=is_retry), stated)
    return CallLimits(_require_budget(budget, limit, material, kind), corrected, correction, limit)


def _require_budget(
    budget: BudgetSpec | None, limit: ModelLimit | None, material: SessionMaterial, kind: str
) -> BudgetSpec | None:
    """Return a budget for what a model is limited to, where the call has none."""
    if budget is None and limit is not None:
        return _build_history_budget(material, kind)
    return budget


def _find_correction(
    state: SessionState, kind: str, model: str, assembler: int
) -> CountCorrection | None:
    if not has_corrected_counts(assembler):
        return None
    by_model = state.corrections.get(kind, {})
    if not has_corrections_by_model(assembler) and model != next(reversed(by_model), None):
        return None
    return by_model.get(model)


def _build_history_budget(material: SessionMaterial, kind: str) -> BudgetSpec:
    """Return a budget without a limit of its own, whose ladder drops the oldest turns.

    Turns that a call summarises are never dropped: the summary would cover what it has not seen.
    """
    slots = material.blueprint.calls[kind].messages
    views = dict.fromkeys(slot.history for slot in slots if isinstance(slot, HistoryMessageSlot))
    steps = (
        LadderStep(drop_oldest_pairs=DropOldestPairs(history=view))
        for view in views
        if material.blueprint.resolve_view(view).of != "selected"
    )
    return BudgetSpec(tokens=MAX_LIMIT, ladder=tuple(steps))
