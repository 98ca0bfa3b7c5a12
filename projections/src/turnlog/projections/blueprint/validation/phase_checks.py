"""Phase checks: every phase, profile and call exists, and carry layers use one template."""

from __future__ import annotations

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import CarryLayer
from turnlog.projections.blueprint.schema.phase_specs import BY_PHASE, PhasesSpec
from turnlog.projections.blueprint.template_slots import find_slots
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    check_known_name,
)


def check_phases(blueprint: Blueprint) -> BlueprintFindings:
    """Check the phases of a blueprint and everything that needs phases."""
    yield from _check_carry_layers(blueprint)
    spec = blueprint.phases
    if spec is None:
        yield from _check_transition_tools(blueprint)
        return
    if spec.from_ and blueprint.cartridge is None:
        yield BlueprintFinding(
            ("phases", "from"), "the blueprint has no cartridge", "add `cartridge`"
        )
    yield from _check_phase_names(spec)
    by_phase = any(profile.call == BY_PHASE for profile in blueprint.profiles.values())
    if by_phase and "freeform" not in spec.calls:
        what = "a profile calls `by_phase`, and no call is said for a dialogue"
        yield BlueprintFinding(
            ("phases", "calls"), what, "write `calls: {freeform: ...}`, or name a call there"
        )
    for phase, profile in spec.profiles.items():
        at = ("phases", "profiles", phase)
        yield from check_known_name(at, "profile", profile, blueprint.profiles)
    for signal in spec.meanings:
        at = ("phases", "meanings", signal)
        yield from check_known_name(at, "signal", signal, spec.signals)
    for kind, made in spec.calls.items():
        yield from check_known_name(("phases", "calls", kind), "call", made, blueprint.calls)


def _check_phase_names(spec: PhasesSpec) -> BlueprintFindings:
    """Check phase names if the blueprint lists phases; a cartridge may draw any."""
    if not spec.order:
        return
    for place, name in enumerate(spec.order):
        if name in spec.order[:place]:
            yield BlueprintFinding(("phases", "order", place), f"`{name}` stands twice", "keep one")
    for name, seen in spec.can_see.items():
        yield from check_known_name(("phases", "can_see", name), "phase", name, spec.order)
        for place, each in enumerate(seen):
            yield from check_known_name(
                ("phases", "can_see", name, place), "phase", each, spec.order
            )
    for name in spec.profiles:
        yield from check_known_name(("phases", "profiles", name), "phase", name, spec.order)
    if spec.can_see:
        for name in dict.fromkeys(spec.order):
            if name not in spec.can_see.get(name, ()):
                what = f"`{name}` would not see its own turns"
                yield BlueprintFinding(
                    ("phases", "can_see", name), what, f"let `{name}` see `{name}`"
                )


def _check_transition_tools(blueprint: Blueprint) -> BlueprintFindings:
    for name, call in blueprint.calls.items():
        if "transition_phase" in call.tools:
            what = "there are no phases for `transition_phase` to end"
            yield BlueprintFinding(("calls", name, "tools"), what, "leave it out, or add `phases`")


def _check_carry_layers(blueprint: Blueprint) -> BlueprintFindings:
    """Check that all carry layers use the same template, because its text is recorded once."""
    first: str | None = None
    for name, layer in blueprint.layers.items():
        if not isinstance(layer, CarryLayer):
            continue
        path, slots = ("layers", name, "text"), set(find_slots(layer.text))
        if blueprint.phases is None:
            yield BlueprintFinding(("layers", name, "carry"), "there are no phases", "add `phases`")
        if "summary" not in slots or not slots <= {"from", "summary"}:
            fix = "write `{summary}` where it stands, and `{from}` for the phase it is of"
            yield BlueprintFinding(path, "it does not name the text to carry", fix)
        if first not in {None, layer.text}:
            yield BlueprintFinding(path, "another layer says it in other words", "keep one of them")
        first = first or layer.text
    yield from _check_carry_listed(blueprint)


def _check_carry_listed(blueprint: Blueprint) -> BlueprintFindings:
    """Find carried summaries that no call includes."""
    spec = blueprint.phases
    listed = {name for call in blueprint.calls.values() for name in call.layers}
    carry_layers = {name for name in listed if isinstance(blueprint.layers.get(name), CarryLayer)}
    if spec is not None and spec.carry.forward == "summary" and not carry_layers:
        fix = "list a layer `{carry: phase}` in a call, or write `none`"
        yield BlueprintFinding(
            ("phases", "carry", "forward"), "no call produces the text to carry", fix
        )
