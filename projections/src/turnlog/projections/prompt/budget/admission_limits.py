"""Limits of fixed components that are checked before anything runs.

A fixed component is never cut, so a text that exceeds its limit by itself can never be sent. The
text of a turn is refused when it is submitted, and so are its pictures, recordings and files; an
attribute when the session opens. All that is fixed is checked together at the start of a turn, for
every call that the turn may make: a turn whose tools have run does not fail for its question or its
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
    build_token_counter,
    format_factor,
)
from turnlog.projections.prompt.budget.call_limits import find_call_limits
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.tools.tool_catalog import DefinitionLimit


def check_turn_text(
    material: SessionMaterial,
    state: SessionState,
    text: str | None,
    inputs: Mapping[str, JsonValue],
    model: str,
) -> None:
    """Refuse a text that exceeds the fixed limit of its component in a call of the turn."""
    for kind in material.list_call_kinds(state):
        field, shown_text = _find_shown_text(material.blueprint.calls[kind], text, inputs)
        limits = find_call_limits(material, state, kind, model)
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
    factor = counting.counter.factor
    # No token is shorter than a byte
    if limit is None or len(text.encode()) * factor <= limit:
        return
    if len(text) > limit * MAX_CHARACTERS_PER_TOKEN:
        tokens = len(text) // MAX_CHARACTERS_PER_TOKEN
        said = f"more than {tokens}"
    else:
        tokens = counting.count_tokens(text)
        said = str(tokens)
    if tokens > limit:
        counted = format_factor(factor)
        raise Refused(
            "over-budget",
            f"{said} tokens{counted} do not fit component {component}, which has {limit}",
            field=field,
            fix=f"shorten it by {tokens - limit} tokens",
        )


def find_definition_limit(material: SessionMaterial, profile: str) -> DefinitionLimit | None:
    """Return how large a tool of a profile may be, so that each call that may offer it has room.

    It is what the budgets leave once every fixed component of the call is as large as it may be.
    """
    blueprint = material.blueprint
    named = blueprint.profiles[profile]
    kinds = (named.act,) if named.program == "tools" else blueprint.list_reply_calls(named)
    calls = [blueprint.calls[kind] for kind in kinds if kind]
    limits = [
        _compute_definition_limit(material, call, blueprint.budget[call.budget])
        for call in calls
        if call.budget and {"all", "for_step"} & set(call.tools)
    ]
    return min(limits, key=lambda each: each.tokens, default=None)


def _compute_definition_limit(
    material: SessionMaterial, call: CallSpec, budget: BudgetSpec
) -> DefinitionLimit:
    layers = material.blueprint.layers
    listed = {layers[name].component for name in call.layers if name in layers}
    listed |= {QUERY_COMPONENT} if INPUT_LAYER in call.layers else set()
    fixed = (
        resolve_limit(component.tokens, {})
        for name, component in budget.components.items()
        if component.fixed and name in listed
    )
    counting = build_token_counter(budget.counter, material.vocabularies, "")
    return DefinitionLimit(max(0, resolve_limit(budget.tokens, {}) - sum(fixed)), counting)


def keep_fixed_parts(material: SessionMaterial, kind: str) -> SessionMaterial:
    """Return the material with a call that has neither history nor tools: what it always has."""
    call = material.blueprint.calls[kind]
    kept = tuple(slot for slot in call.messages if not isinstance(slot, HistoryMessageSlot))
    bare = call.model_copy(update={"messages": kept, "tools": ()})
    calls = {**material.blueprint.calls, kind: bare}
    return replace(material, blueprint=material.blueprint.model_copy(update={"calls": calls}))
