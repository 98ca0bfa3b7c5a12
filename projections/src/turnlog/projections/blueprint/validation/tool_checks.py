"""Tool checks: whatever offers, describes or runs tools needs servers that have them."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import CondenseResults
from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.blueprint.schema.layer_specs import (
    TOOL_RESULTS_LAYER,
    PromptsLayer,
    ResultsLayer,
    StepLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
)

_SERVER_TOOL_WORDS = frozenset({"all", "for_step"})

_ADD_SERVERS_FIX = "add `tools` with its servers"


def check_tools(blueprint: Blueprint) -> BlueprintFindings:
    """Check that servers exist where tools are used, and that some profile executes steps."""
    if blueprint.tools is None:
        for path in _find_tool_uses(blueprint):
            yield BlueprintFinding(path, "there are no tools", _ADD_SERVERS_FIX)
    if all(profile.program != "tools" for profile in blueprint.profiles.values()):
        for path in _find_step_uses(blueprint):
            fix = "give a profile the program `tools`"
            yield BlueprintFinding(path, "no profile takes steps", fix)
    for name in sorted(_find_reply_calls_with_tools(blueprint)):
        what = "a plan, or a reply of `chat` or `tools`, calls no tools"
        fix = "give its profile `program: loop`, or leave them to a call that one names as `act`"
        yield BlueprintFinding(("calls", name, "tools"), what, fix)
    yield from _check_server_filters(blueprint)
    for name, profile in blueprint.profiles.items():
        if profile.program == "tools":
            yield from _check_tools_program(blueprint, name, profile)
        elif profile.program == "loop":
            yield from _check_loop_program(blueprint, name, profile)


def _check_tools_program(
    blueprint: Blueprint, name: Name, profile: ProfileSpec
) -> BlueprintFindings:
    """Find calls that cannot have the role for which a profile names them."""
    for word in ("plan", "call"):
        if profile.calls[word] == profile.act:
            what = f"`{profile.act}` takes the steps, so it gives no plan and no reply"
            yield BlueprintFinding(("profiles", name, word), what, "name another call")
    if profile.plan == profile.call:
        what = f"`{profile.plan}` writes the reply, which would be another plan"
        yield BlueprintFinding(("profiles", name, "plan"), what, "name another call")
    act = blueprint.calls.get(profile.act or "")
    if act is not None and not _SERVER_TOOL_WORDS & set(act.tools):
        what = f"profile `{name}` takes its steps by it, and it offers no tools"
        yield BlueprintFinding(
            ("calls", profile.act or "", "tools"), what, "write `tools: [for_step]`"
        )


def _check_loop_program(
    blueprint: Blueprint, name: Name, profile: ProfileSpec
) -> BlueprintFindings:
    """Find a loop that has nothing to call, or whose tool results could fail the turn."""
    call = blueprint.calls.get(profile.call)
    if call is None:
        return
    if "all" not in call.tools:
        what = f"profile `{name}` calls tools by it, and it offers none"
        yield BlueprintFinding(("calls", profile.call, "tools"), what, "write `tools: [all]`")
    budget = blueprint.budget.get(call.budget or "")
    if budget is not None and all(
        not isinstance(step.action, CondenseResults) or step.target != TOOL_RESULTS_LAYER
        for step in budget.ladder
    ):
        what = f"no step shortens the tool results of profile `{name}` when they have no room"
        fix = f"add `condense_results: {{layer: {TOOL_RESULTS_LAYER}, to: digest}}` to its ladder"
        yield BlueprintFinding(("budget", call.budget or "", "ladder"), what, fix)


def _check_server_filters(blueprint: Blueprint) -> BlueprintFindings:
    """Find tools that are both offered and excluded."""
    servers = blueprint.tools.servers if blueprint.tools else {}
    for name, server in servers.items():
        for tool in sorted(set(server.only or ()) & set(server.except_)):
            what = f"`{tool}` stands in `only` as well"
            yield BlueprintFinding(
                ("tools", "servers", name, "except"), what, "keep one of the two"
            )


def _find_reply_calls_with_tools(blueprint: Blueprint) -> Iterator[str]:
    """Yield reply and plan calls that offer server tools, which nothing would run."""
    by_phase = blueprint.phases.calls.values() if blueprint.phases else ()
    profiles = [each for each in blueprint.profiles.values() if each.program != "loop"]
    named = {call for each in profiles for call in (each.call, each.plan)}
    for name, call in blueprint.calls.items():
        if _SERVER_TOOL_WORDS & set(call.tools) and name in {*named, *by_phase}:
            yield name


def _find_tool_uses(blueprint: Blueprint) -> Iterator[DocumentPath]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, ToolsLayer):
            yield ("layers", name, "tools")
        elif isinstance(layer, PromptsLayer):
            yield ("layers", name, "prompts")
    for name, call in blueprint.calls.items():
        if _SERVER_TOOL_WORDS & set(call.tools):
            yield ("calls", name, "tools")


def _find_step_uses(blueprint: Blueprint) -> Iterator[DocumentPath]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, StepLayer | ResultsLayer):
            yield ("layers", name, "step" if isinstance(layer, StepLayer) else "results")
    for name, call in blueprint.calls.items():
        if "for_step" in call.tools:
            yield ("calls", name, "tools")
