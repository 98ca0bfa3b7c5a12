"""Tool checks: whatever offers, describes or runs tools needs servers that have them."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import CondenseResults, LadderStep
from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.blueprint.schema.layer_specs import (
    TOOL_RESULTS_LAYER,
    PromptsLayer,
    ResultsLayer,
    StepLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.schema.tool_specs import (
    ALL_TOOLS,
    EndpointServerSpec,
    FunctionServerSpec,
    ServerSpec,
)
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    suggest_word,
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
    for name in sorted(_find_calls_without_rounds(blueprint)):
        what = "a plan, or a reply of the program `tools`, calls no tools"
        fix = "leave them to a call that a profile names as `act`, or give it `program: loop`"
        yield BlueprintFinding(("calls", name, "tools"), what, fix)
    for name in sorted(_find_replies_with_step_tools(blueprint)):
        what = "no step is taken by it, so there are no tools of a step"
        yield BlueprintFinding(("calls", name, "tools"), what, "write `tools: [all]`")
    yield from _check_server_filters(blueprint)
    yield from _check_listed_tools(blueprint)
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
    calls = {
        word: blueprint.calls[word]
        for word in blueprint.list_reply_calls(profile)
        if word in blueprint.calls
    }
    if calls and all("all" not in call.tools for call in calls.values()):
        what = f"profile `{name}` calls tools by it, and it offers none"
        yield BlueprintFinding(("calls", next(iter(calls)), "tools"), what, "write `tools: [all]`")
    for budget in sorted({call.budget for call in calls.values() if call.budget}):
        ladder = blueprint.budget[budget].ladder if budget in blueprint.budget else None
        if ladder is not None and not any(map(_can_shorten_rounds, ladder)):
            what = f"no step shortens the tool results of profile `{name}` when they have no room"
            step = f"condense_results: {{layer: {TOOL_RESULTS_LAYER}, to: digest}}"
            fix = f"add `{step}` to its ladder"
            yield BlueprintFinding(("budget", budget, "ladder"), what, fix)


def _can_shorten_rounds(step: LadderStep) -> bool:
    return isinstance(step.action, CondenseResults) and step.target == TOOL_RESULTS_LAYER


def _check_server_filters(blueprint: Blueprint) -> BlueprintFindings:
    """Find tools that are both offered and excluded, or approved and not offered."""
    servers = blueprint.tools.servers if blueprint.tools else {}
    for name, server in servers.items():
        for tool in sorted(set(server.only or ()) & set(server.except_)):
            what = f"`{tool}` stands in `only` as well"
            yield BlueprintFinding(
                ("tools", "servers", name, "except"), what, "keep one of the two"
            )
        offered = None if server.only is None else {*server.only}
        for tool in server.approve:
            if tool in server.except_ or (
                offered is not None and tool not in {*offered, ALL_TOOLS}
            ):
                what = f"`{tool}` is not offered, so there is nothing to approve"
                fix = "name a tool that `only` and `except` leave, or `all`"
                yield BlueprintFinding(("tools", "servers", name, "approve"), what, fix)


def _check_listed_tools(blueprint: Blueprint) -> BlueprintFindings:
    """Find options that name a tool which their server, whose tools are listed, does not have."""
    for name, server in (blueprint.tools.servers if blueprint.tools else {}).items():
        known = _list_tools(server)
        if known is None:
            continue
        options = {
            "only": server.only or (),
            "except": server.except_,
            "idempotent": server.idempotent,
            "approve": tuple(tool for tool in server.approve if tool != ALL_TOOLS),
        }
        for option, tools in options.items():
            for tool in tools:
                if tool not in known:
                    what = f"server `{name}` has no tool `{tool}`"
                    path = ("tools", "servers", name, option)
                    yield BlueprintFinding(path, what, suggest_word(tool, known))


def _list_tools(server: ServerSpec) -> frozenset[str] | None:
    """Return the tools of a server as the blueprint lists them; None where the server does."""
    match server:
        case FunctionServerSpec(functions=functions):
            return frozenset(functions)
        case EndpointServerSpec(endpoints=endpoints):
            return frozenset(endpoints)
        case _:
            return None


def _find_calls_without_rounds(blueprint: Blueprint) -> Iterator[Name]:
    """Yield the calls of the program `tools` that offer tools which nothing would run."""
    profiles = [each for each in blueprint.profiles.values() if each.program == "tools"]
    named = {call for each in profiles for call in (*blueprint.list_reply_calls(each), each.plan)}
    for name, call in blueprint.calls.items():
        if _SERVER_TOOL_WORDS & set(call.tools) and name in named:
            yield name


def _find_replies_with_step_tools(blueprint: Blueprint) -> Iterator[Name]:
    """Yield the calls of `chat` that offer the tools of a step; those of a loop offer all."""
    profiles = [each for each in blueprint.profiles.values() if each.program == "chat"]
    named = {call for each in profiles for call in blueprint.list_reply_calls(each)}
    for name, call in blueprint.calls.items():
        if "for_step" in call.tools and "all" not in call.tools and name in named:
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
