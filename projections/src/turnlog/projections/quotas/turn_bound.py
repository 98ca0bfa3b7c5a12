"""What a turn may use at most, from its blueprint alone: budgets, rounds and longest answers.

It is what the turn reserves of its user's quota before anything runs. Each call may take the whole
of its budget; a plan may have all its steps and each step a second try, and a loop all its rounds.
An attempt that is repeated after a failure is not counted in advance; what it used is settled. The
children of a coordinator reserve for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import resolve_limit
from turnlog.projections.blueprint.schema.call_specs import CallSpec, ProfileSpec
from turnlog.projections.blueprint.token_counters import build_call_counter

UNBUDGETED_INPUT_TOKENS: Final = 32_000
"""What a call reserves in a blueprint without budgets, beside the pictures, recordings and files of
the turn and the texts among its inputs; it is not cut, so it may take more.
"""

DEFAULT_OUTPUT_TOKENS: Final = 4_096
"""What a call reserves for its answer if its parameters do not limit it."""


@dataclass(frozen=True, slots=True)
class TurnBound:
    """What a turn may use at most."""

    input_tokens: int = 0
    output_tokens: int = 0


def compute_turn_bound(
    blueprint: Blueprint, profile: str, inputs: Mapping[str, JsonValue], media_tokens: int = 0
) -> TurnBound:
    """Return what a turn under a profile may use at most.

    `media_tokens` are those of the pictures, recordings and files that it brings.
    """
    spec = blueprint.profiles[profile]
    calls = [(blueprint.calls[name], times) for name, times in _count_calls(blueprint, spec)]
    return TurnBound(
        sum(times * _bound_input(blueprint, call, inputs, media_tokens) for call, times in calls),
        sum(times * _bound_output(call) for call, times in calls),
    )


def _count_calls(blueprint: Blueprint, profile: ProfileSpec) -> Iterator[tuple[str, int]]:
    """Yield the calls of a turn, with how often each can be made."""
    replies = blueprint.list_reply_calls(profile)
    steps = blueprint.tools.most_steps if blueprint.tools else 1
    rounds = profile.round_limit + 1 if profile.has_rounds else 1
    for name in (profile.plan, profile.act):
        if name is not None:
            yield name, 2 * steps if name == profile.act else 1
    # Of several calls for phases a turn makes one; the largest stands for it.
    largest = max(replies, key=lambda name: _bound_input(blueprint, blueprint.calls[name], {}, 0))
    yield largest, rounds
    for name in blueprint.summary_calls - {largest}:
        yield name, 1
    for name in blueprint.list_query_calls(profile):
        yield name, 1


def _bound_input(
    blueprint: Blueprint, call: CallSpec, inputs: Mapping[str, JsonValue], media_tokens: int
) -> int:
    budget = blueprint.budget.get(call.budget or "")
    if budget is not None:
        return resolve_limit(budget.tokens, inputs)
    # A call without a budget of its own, such as that of a summary, counts as the largest one.
    others = (resolve_limit(each.tokens, inputs) for each in blueprint.budget.values())
    unlimited = UNBUDGETED_INPUT_TOKENS + _estimate_input_tokens(inputs) + media_tokens
    return max(others, default=unlimited)


def _estimate_input_tokens(inputs: Mapping[str, JsonValue]) -> int:
    counting = build_call_counter(None, {}, "")
    return sum(counting.count_tokens(each) for each in inputs.values() if isinstance(each, str))


def _bound_output(call: CallSpec) -> int:
    named = (call.parameters.get(each) for each in ("max_completion_tokens", "max_tokens"))
    limits = [value for value in named if isinstance(value, int) and value > 0]
    return min(limits, default=DEFAULT_OUTPUT_TOKENS)
