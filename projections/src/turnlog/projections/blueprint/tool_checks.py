"""Checks of tools: what offers, tells of or runs them needs servers that have them."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.faults import Path, Remark
from turnlog.projections.blueprint.layer import PromptsLayer, ResultsLayer, StepLayer, ToolsLayer
from turnlog.projections.blueprint.schema import Blueprint

Remarks = Iterator[Remark]
_SERVERS = "add `tools` with its servers"


def tool_remarks(blueprint: Blueprint) -> Remarks:
    """Check that there are tools where some are meant, and steps where one is told of."""
    if blueprint.tools is None:
        for path in _meaning_tools(blueprint):
            yield Remark(path, "there are no tools", _SERVERS)
    if all(profile.program != "tools" for profile in blueprint.profiles.values()):
        for path in _meaning_steps(blueprint):
            fix = "give a profile the program `tools`"
            yield Remark(path, "no profile takes steps", fix)
    for name in sorted(_replying(blueprint)):
        fix = "leave them to a call that a profile names as `act`"
        yield Remark(("calls", name, "tools"), "nobody runs the tools of a reply or a plan", fix)


def _replying(blueprint: Blueprint) -> Iterator[str]:
    """Name the calls that offer tools of servers to where what is asked for is not run."""
    by_phase = blueprint.phases.calls.values() if blueprint.phases else ()
    named = {call for each in blueprint.profiles.values() for call in (each.call, each.plan)}
    for name, call in blueprint.calls.items():
        if {"all", "for_step"} & set(call.tools) and name in {*named, *by_phase}:
            yield name


def _meaning_tools(blueprint: Blueprint) -> Iterator[Path]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, ToolsLayer):
            yield ("layers", name, "tools")
        elif isinstance(layer, PromptsLayer):
            yield ("layers", name, "prompts")
    for name, call in blueprint.calls.items():
        if {"all", "for_step"} & set(call.tools):
            yield ("calls", name, "tools")


def _meaning_steps(blueprint: Blueprint) -> Iterator[Path]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, StepLayer | ResultsLayer):
            yield ("layers", name, "step" if isinstance(layer, StepLayer) else "results")
    for name, call in blueprint.calls.items():
        if "for_step" in call.tools:
            yield ("calls", name, "tools")
