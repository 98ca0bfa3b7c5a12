"""Blueprint checks: every name that one part uses is defined by another part.

A check yields findings with paths; the loader adds the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import assert_never

from turnlog.projections.blueprint.linear_patterns import find_pattern_fault
from turnlog.projections.blueprint.locale_tags import DEFAULT_LOCALE, format_locale_tag
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import (
    ALLOWED_MODEL_PARAMETERS,
    CallSpec,
    HistoryMessageSlot,
    SystemMessageSlot,
    UserMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    INPUT_LAYER,
    FieldsLayer,
)
from turnlog.projections.blueprint.schema.phase_specs import BY_PHASE
from turnlog.projections.blueprint.schema.policy_specs import (
    LOCALE_ATTRIBUTE,
    InputPatternRule,
    InputRule,
    SafetyCheckRule,
    SafetyPatternRule,
    SafetyRule,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
    suggest_word,
)
from turnlog.projections.blueprint.validation.budget_checks import check_budgets
from turnlog.projections.blueprint.validation.history_view_checks import check_history_views
from turnlog.projections.blueprint.validation.layer_checks import (
    PROVIDER_SLOT,
    check_layers,
    check_overrides,
    check_search_folders,
    check_segment_layers,
)
from turnlog.projections.blueprint.validation.lookup_checks import (
    check_resolver_use,
    check_retrievals,
)
from turnlog.projections.blueprint.validation.parent_input_checks import check_parent_inputs
from turnlog.projections.blueprint.validation.phase_checks import check_phases
from turnlog.projections.blueprint.validation.tool_checks import check_tools
from turnlog.projections.blueprint.validation.value_spec_checks import check_value_specs


def check_blueprint(blueprint: Blueprint) -> BlueprintFindings:
    """Check a whole blueprint."""
    return chain(
        check_value_specs(blueprint),
        _check_attribute_names(blueprint),
        check_layers(blueprint),
        check_search_folders(blueprint, ("prompts", "search"), blueprint.prompts.search),
        *(_check_call(blueprint, name, call) for name, call in blueprint.calls.items()),
        check_history_views(blueprint),
        check_budgets(blueprint),
        check_segment_layers(blueprint),
        _check_profiles(blueprint),
        check_phases(blueprint),
        _check_dotted_paths(blueprint),
        check_resolver_use(blueprint),
        check_retrievals(blueprint),
        check_tools(blueprint),
        check_parent_inputs(blueprint),
        check_overrides(blueprint),
        _check_safety_patterns(blueprint),
        _check_input_rules(blueprint),
        _check_replacements(blueprint),
    )


def _check_safety_patterns(blueprint: Blueprint) -> BlueprintFindings:
    """Find patterns that cannot be searched in linear time.

    Not a part of the schema: a session that pinned such a pattern earlier can still be read.
    """
    policies = blueprint.policies
    places: tuple[tuple[DocumentPath, Sequence[SafetyRule | InputRule]], ...] = (
        (("policies", "safety", "rules"), policies.safety.rules),
        (("policies", "input_safety"), policies.input_safety),
    )
    for place, rules in places:
        for at, rule in enumerate(rules):
            if not isinstance(rule, SafetyPatternRule | InputPatternRule):
                continue
            if fault := find_pattern_fault(rule.pattern):
                yield BlueprintFinding((*place, at, "pattern"), fault.reason, fault.fix)


def _check_input_rules(blueprint: Blueprint) -> BlueprintFindings:
    """Find rules that a turn's findings could not tell apart."""
    names = [rule.name for rule in blueprint.policies.input_safety]
    for at, name in enumerate(names):
        if name in names[:at]:
            path = ("policies", "input_safety", at, "name")
            yield BlueprintFinding(path, f"there is a rule `{name}` already", "choose another name")


def _check_replacements(blueprint: Blueprint) -> BlueprintFindings:
    """Find texts by locale that no session could choose from."""
    texts, path = blueprint.policies.replacement, ("policies", "replacement")
    if isinstance(texts, str):
        return
    spec = blueprint.attributes.get(LOCALE_ATTRIBUTE)
    if spec is None or spec.type != "locale":
        what = f"the text is chosen by the attribute `{LOCALE_ATTRIBUTE}`, and there is none"
        yield BlueprintFinding(path, what, f"add `{LOCALE_ATTRIBUTE}: {{type: locale}}`")
    if DEFAULT_LOCALE not in {format_locale_tag(tag) for tag in texts}:
        what = f"there is no text for `{DEFAULT_LOCALE}`, which stands in for all other locales"
        yield BlueprintFinding(path, what, f"add one for `{DEFAULT_LOCALE}`")


def _check_attribute_names(blueprint: Blueprint) -> BlueprintFindings:
    if PROVIDER_SLOT in blueprint.attributes:
        what = f"`{PROVIDER_SLOT}` is the provider of the model in use"
        yield BlueprintFinding(("attributes", PROVIDER_SLOT), what, "choose another name")


def _check_call(blueprint: Blueprint, name: Name, call: CallSpec) -> BlueprintFindings:
    path = ("calls", name)
    known = (*blueprint.layers, INPUT_LAYER)
    seen: set[str] = set()
    for place, written in _iterate_call_names(call):
        kind = "history" if place[-1] == "history" else "layer"
        names = blueprint.history if kind == "history" else known
        yield from check_known_name((*path, *place), kind, written, names)
        if (mark := f"{kind} {written}") in seen:
            yield BlueprintFinding((*path, *place), f"{mark} stands twice in this call", "keep one")
        seen.add(mark)
    for parameter in call.parameters:
        yield from check_known_name(
            (*path, "parameters", parameter), "parameter", parameter, ALLOWED_MODEL_PARAMETERS
        )
    for at, layer in enumerate(() if isinstance(call.cache, str) else call.cache):
        yield from check_known_name((*path, "cache", at), "layer", layer, call.layers)
    if call.budget:
        yield from check_known_name((*path, "budget"), "budget", call.budget, blueprint.budget)
    if call.input_from:
        place = (*path, "input_from")
        yield from check_known_name(place, "input", call.input_from, blueprint.inputs)
    for at, slot in enumerate(call.messages):
        if not isinstance(slot, HistoryMessageSlot) and slot.form:
            form = (*path, "messages", at, "form")
            yield from check_known_name(form, "form", slot.form, blueprint.forms)


def _iterate_call_names(call: CallSpec) -> Iterator[tuple[DocumentPath, Name]]:
    for place, slot in enumerate(call.messages):
        match slot:
            case SystemMessageSlot() | UserMessageSlot():
                word = "system" if isinstance(slot, SystemMessageSlot) else "user"
                for at, name in enumerate(slot.layers):
                    yield ("messages", place, word, at), name
            case HistoryMessageSlot(history=view):
                yield ("messages", place, "history"), view
            case _ as never:
                assert_never(never)


def _check_profiles(blueprint: Blueprint) -> BlueprintFindings:
    for name, profile in blueprint.profiles.items():
        for word, call in profile.calls.items():
            path = ("profiles", name, word)
            known = (*blueprint.calls, BY_PHASE) if word == "call" else tuple(blueprint.calls)
            yield from check_known_name(path, "call", call, known)
        if profile.call == BY_PHASE and blueprint.phases is None:
            path = ("profiles", name, "call")
            yield BlueprintFinding(
                path, "there are no phases to go by", "name a call, or add `phases`"
            )


def _check_dotted_paths(blueprint: Blueprint) -> BlueprintFindings:
    """Check the first part of dotted paths, and attribute names.

    The rest depends on the cartridge.
    """
    for path, written in _iterate_dotted_paths(blueprint):
        place, _, rest = written.partition(".")
        if place == "attributes":
            yield from check_known_name(
                path, "attribute", rest.partition(".")[0], blueprint.attributes
            )
        elif place == "cartridge" and blueprint.cartridge is None:
            yield BlueprintFinding(path, "the blueprint has no cartridge", "add `cartridge`")
        elif place != "cartridge" and written not in {"session.phase", "tools.most_steps"}:
            known = ("cartridge", "attributes", "session.phase", "tools.most_steps")
            yield BlueprintFinding(
                path, f"`{written}` does not exist", suggest_word(written, known)
            )


def _iterate_dotted_paths(blueprint: Blueprint) -> Iterator[tuple[DocumentPath, str]]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FieldsLayer):
            for label, written in layer.fields.items():
                yield ("layers", name, "fields", label), written
    if blueprint.cartridge and blueprint.cartridge.context:
        yield ("cartridge", "context"), blueprint.cartridge.context
    for at, rule in enumerate(blueprint.policies.safety.rules):
        if isinstance(rule, SafetyCheckRule) and rule.with_:
            yield ("policies", "safety", "rules", at, "with"), rule.with_
