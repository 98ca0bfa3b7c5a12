"""Limits of fixed components that are checked before anything runs.

A fixed component is never cut, so a text that exceeds its limit by itself can never be sent. The
text of a turn is refused when it is submitted, and so are its pictures, recordings and files; an
attribute when the session opens. A turn is refused as well that by itself is more than its model
takes by a file of dialects. All that is fixed is checked together at the start of a turn, for every
call that the turn may make: a turn whose tools have run does not fail for its question or its
system prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    MAX_CHARACTERS_PER_TOKEN,
    BudgetSpec,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.call_specs import (
    DEFAULT_MESSAGE_FORMAT,
    CallSpec,
    HistoryMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    INPUT_LAYER,
    MEDIA_COMPONENT,
    QUERY_COMPONENT,
    AttributeLayer,
)
from turnlog.projections.blueprint.template_slots import format_prompt_value
from turnlog.projections.blueprint.token_counters import (
    TokenCounter,
    TokenVocabulary,
    build_call_counter,
    build_token_counter,
    format_factor,
)
from turnlog.projections.prompt.budget.call_limits import find_call_limits, resolve_largest_prompt
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.tools.tool_catalog import DefinitionLimit


def check_turn_text(
    material: SessionMaterial,
    state: SessionState,
    text: str | None,
    inputs: Mapping[str, JsonValue],
    model: str,
    *,
    context_tokens: int | None,
) -> None:
    """Refuse a text that exceeds the fixed limit of its component in a call of the turn.

    `context_tokens` is what the model takes by a file of dialects; None if none says so.
    """
    for kind in material.list_call_kinds(state):
        field, shown_text = _find_shown_text(material.blueprint.calls[kind], text, inputs)
        limits = find_call_limits(material, state, kind, model, context_tokens=context_tokens)
        if not shown_text or limits.budget is None:
            continue
        _check_text(
            field=field,
            text=shown_text,
            component=QUERY_COMPONENT,
            budget=limits.budget,
            counting=limits.counting,
            inputs=inputs,
        )


def check_turn_size(
    material: SessionMaterial,
    state: SessionState,
    text: str | None,
    media_tokens: int,
    inputs: Mapping[str, JsonValue],
    model: str,
    *,
    context_tokens: int | None,
) -> None:
    """Refuse a turn that by itself is more than its model takes in one of its calls.

    `media_tokens` are those of what the model reads, and `context_tokens` is what it takes by a
    file of dialects; None if none says so. A provider's own counts only add to these, and may turn
    out wrong, so they are left to the prompt.
    """
    for kind in material.list_call_kinds(state):
        call = material.blueprint.calls[kind]
        limits = find_call_limits(
            material=material,
            state=state,
            kind=kind,
            model=model,
            context_tokens=context_tokens,
            is_corrected=False,
        )
        if limits.budget and limits.model_limit and INPUT_LAYER in call.layers:
            # Pictures of the open turn are in its prompts whatever a ladder drops.
            steps = limits.budget.steps
            may_shorten = any(each.registered or each.target == INPUT_LAYER for each in steps)
            field, shown_text = _find_shown_text(call, text, inputs)
            _check_size(
                field=field,
                text="" if may_shorten else shown_text,
                media_tokens=media_tokens,
                largest=resolve_largest_prompt(limits.budget, limits.model_limit, inputs),
                counting=limits.counting,
            )


def _check_size(
    field: str, text: str, media_tokens: int, largest: int, counting: TokenCounter
) -> None:
    tokens, said = _count_text(text, max(1, largest - media_tokens), counting)
    excess = tokens + media_tokens - largest
    if excess > 0:
        beside = f" and {media_tokens} of its parts" if media_tokens else ""
        raise Refused(
            "over-budget",
            f"{said} tokens of the turn{beside} do not fit the {largest} that the model takes",
            field="parts" if media_tokens > tokens else field,
            fix=f"shorten it by {excess} tokens or choose a model with more room",
        )


def check_turn_media(
    material: SessionMaterial,
    state: SessionState,
    media_tokens: int,
    inputs: Mapping[str, JsonValue],
) -> None:
    """Refuse pictures, recordings and files that exceed the fixed limit of their component."""
    for kind in material.list_call_kinds(state):
        budget = material.blueprint.budget.get(material.blueprint.calls[kind].budget or "")
        spec = budget.components.get(MEDIA_COMPONENT) if budget else None
        limit = resolve_limit(spec.tokens, inputs) if spec and spec.fixed else None
        if limit is not None and media_tokens > limit:
            raise Refused(
                "over-budget",
                f"{media_tokens} tokens do not fit component {MEDIA_COMPONENT}, which has {limit}",
                field="parts",
                fix="send fewer or smaller ones",
            )


def _find_shown_text(
    call: CallSpec, text: str | None, inputs: Mapping[str, JsonValue]
) -> tuple[str, str]:
    """Return the field and the text that a call shows as the input of a turn."""
    if call.input_from and (shown := format_prompt_value(inputs.get(call.input_from))):
        return f"inputs.{call.input_from}", shown
    return "text", text or ""


def check_attribute_texts(
    blueprint: Blueprint,
    attributes: Mapping[str, JsonValue],
    vocabularies: Mapping[str, TokenVocabulary],
    model: str,
) -> None:
    """Refuse an attribute that exceeds the fixed limit of its component in any call.

    The separator before it counts as well, as it does in a prompt.
    """
    for call in blueprint.calls.values():
        layers = [blueprint.layers.get(name) for name in call.layers]
        for layer in layers:
            if isinstance(layer, AttributeLayer):
                value = format_prompt_value(attributes.get(layer.attribute))
                text = f"{DEFAULT_MESSAGE_FORMAT.between}{value}"
                if budget := blueprint.budget.get(call.budget or ""):
                    _check_text(
                        field=f"attributes.{layer.attribute}",
                        text=text,
                        component=layer.component,
                        budget=budget,
                        counting=build_token_counter(budget.counter, vocabularies, model),
                        inputs={},
                    )


def _check_text(
    field: str,
    text: str,
    component: str,
    budget: BudgetSpec,
    counting: TokenCounter,
    inputs: Mapping[str, JsonValue],
) -> None:
    spec = budget.components.get(component)
    limit = resolve_limit(spec.tokens, inputs) if spec and spec.fixed else None
    if limit is None:
        return
    tokens, said = _count_text(text, limit, counting)
    if tokens > limit:
        counted = format_factor(counting.counter.factor)
        raise Refused(
            "over-budget",
            f"{said} tokens{counted} do not fit component {component}, which has {limit}",
            field=field,
            fix=f"shorten it by {tokens - limit} tokens",
        )


def _count_text(text: str, limit: int, counting: TokenCounter) -> tuple[int, str]:
    """Return the tokens of a text, and how an error names them; 0 for one that surely fits."""
    # No token is shorter than a byte
    if len(text.encode()) * counting.counter.factor <= limit:
        return 0, "0"
    if len(text) > limit * MAX_CHARACTERS_PER_TOKEN:
        tokens = len(text) // MAX_CHARACTERS_PER_TOKEN
        return tokens, f"more than {tokens}"
    tokens = counting.count_tokens(text)
    return tokens, str(tokens)


def find_definition_limit(
    material: SessionMaterial, profile: str, *, context_tokens: int | None
) -> DefinitionLimit | None:
    """Return how large a tool of a profile may be, so that each call that may offer it has room.

    It is what the budgets leave once every fixed component of the call is as large as it may be, or
    what the model's context leaves, which is `context_tokens`; None if neither is known.
    """
    blueprint = material.blueprint
    named = blueprint.profiles[profile]
    kinds = (named.act,) if named.program == "tools" else blueprint.list_reply_calls(named)
    calls = [blueprint.calls[kind] for kind in kinds if kind]
    limits = [
        _compute_definition_limit(
            material, call, blueprint.budget.get(call.budget or ""), context_tokens
        )
        for call in calls
        if (call.budget or context_tokens is not None) and {"all", "for_step"} & set(call.tools)
    ]
    return min(limits, key=lambda each: each.tokens, default=None)


def _compute_definition_limit(
    material: SessionMaterial,
    call: CallSpec,
    budget: BudgetSpec | None,
    context_tokens: int | None,
) -> DefinitionLimit:
    layers = material.blueprint.layers
    listed = {layers[name].component for name in call.layers if name in layers}
    listed |= {QUERY_COMPONENT} if INPUT_LAYER in call.layers else set()
    components = budget.components if budget else {}
    fixed = (
        resolve_limit(component.tokens, {})
        for name, component in components.items()
        if component.fixed and name in listed
    )
    stated = (resolve_limit(budget.tokens, {}) if budget else None, context_tokens)
    largest = min(each for each in stated if each is not None)
    counting = build_call_counter(budget, material.vocabularies, "")
    return DefinitionLimit(max(0, largest - sum(fixed)), counting)


def keep_fixed_parts(material: SessionMaterial, kind: str) -> SessionMaterial:
    """Return the material with a call that has neither history nor tools: what it always has."""
    call = material.blueprint.calls[kind]
    kept = tuple(slot for slot in call.messages if not isinstance(slot, HistoryMessageSlot))
    bare = call.model_copy(update={"messages": kept, "tools": ()})
    calls = {**material.blueprint.calls, kind: bare}
    return replace(material, blueprint=material.blueprint.model_copy(update={"calls": calls}))
