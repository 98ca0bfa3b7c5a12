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
    check_known_name,
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
        elif profile.has_rounds:
            yield from _check_rounds_program(blueprint, name, profile)
    yield from _check_children(blueprint)


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


def _check_rounds_program(
    blueprint: Blueprint, name: Name, profile: ProfileSpec
) -> BlueprintFindings:
    """Find a call of rounds that has nothing to call, or whose results could fail the turn."""
    word = "children" if profile.program == "coordinator" else "all"
    calls = {
        call: blueprint.calls[call]
        for call in blueprint.list_reply_calls(profile)
        if call in blueprint.calls
    }
    if calls and all(word not in call.tools for call in calls.values()):
        what = f"profile `{name}` calls tools by it, and it offers none"
        yield BlueprintFinding(
            ("calls", next(iter(calls)), "tools"), what, f"write `tools: [{word}]`"
        )
    for budget in sorted({call.budget for call in calls.values() if call.budget}):
        ladder = blueprint.budget[budget].ladder if budget in blueprint.budget else None
        if ladder is not None and not any(map(_can_shorten_rounds, ladder)):
            what = f"no step shortens the tool results of profile `{name}` when they have no room"
            step = f"condense_results: {{layer: {TOOL_RESULTS_LAYER}, to: digest}}"
            fix = f"add `{step}` to its ladder"
            yield BlueprintFinding(("budget", budget, "ladder"), what, fix)


def _check_children(blueprint: Blueprint) -> BlueprintFindings:
    """Check that coordinators have children that can answer, and do not ask each other for ever."""
    coordinators = {
        name: profile for name, profile in blueprint.profiles.items() if profile.children
    }
    most = blueprint.policies.children.most_levels
    for name, profile in coordinators.items():
        at = ("profiles", name, "children")
        for place, child in enumerate(profile.children):
            yield from check_known_name((*at, place), "profile", child, blueprint.profiles)
            if child in profile.children[:place]:
                yield BlueprintFinding((*at, place), f"`{child}` stands twice", "keep one")
            found = blueprint.profiles.get(child)
            if found is not None and not found.summary:
                what = f"the model of `{name}` cannot know what `{child}` is for"
                yield BlueprintFinding(("profiles", child), what, "give it a `summary`")
        levels = _count_levels(blueprint, name, ())
        if levels is None:
            what = f"`{name}` is a child of itself"
            yield BlueprintFinding(at, what, "name profiles that do not lead back to it")
        elif levels > most:
            what = f"there are {levels} levels of children below `{name}`, {most} are allowed"
            fix = "name children that have none, or raise `policies.children.most_levels`"
            yield BlueprintFinding(at, what, fix)
    named = {call for each in coordinators.values() for call in blueprint.list_reply_calls(each)}
    for name, call in blueprint.calls.items():
        if "children" not in call.tools:
            continue
        if len(call.tools) > 1:
            what = "a call that offers children offers no other tools"
            yield BlueprintFinding(("calls", name, "tools"), what, "write `tools: [children]`")
        if name not in named:
            what = "no profile of the program `coordinator` replies by it"
            fix = "leave `children` out, or name the call in such a profile"
            yield BlueprintFinding(("calls", name, "tools"), what, fix)


def _count_levels(blueprint: Blueprint, name: Name, above: tuple[Name, ...]) -> int | None:
    """Return how many levels of children a profile has, or None if it leads back to itself."""
    if name in above:
        return None
    profile = blueprint.profiles.get(name)
    below = [
        _count_levels(blueprint, child, (*above, name))
        for child in (profile.children if profile else ())
    ]
    levels = [each for each in below if each is not None]
    if len(levels) < len(below):
        return None
    return 1 + max(levels) if levels else 0


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
