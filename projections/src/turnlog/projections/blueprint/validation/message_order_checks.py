"""Warnings about orders of messages that some providers refuse.

They are no errors: other providers take such a request, and Turnlog sends it as it is written.
"""

from __future__ import annotations

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import (
    CallSpec,
    HistoryMessageSlot,
    SystemMessageSlot,
    UserMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    INPUT_LAYER,
    FileLayer,
    OverrideLayer,
    TextLayer,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.template_slots import find_slots
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
)


def find_order_warnings(blueprint: Blueprint) -> BlueprintFindings:
    """Find calls whose messages are in an order that not all providers take."""
    for name, call in blueprint.calls.items():
        yield from _find_late_system_messages(name, call)
        yield from _find_final_replies(blueprint, name, call)


def _find_late_system_messages(name: Name, call: CallSpec) -> BlueprintFindings:
    """Find system messages behind messages of another role."""
    has_begun = False
    for place, slot in enumerate(call.messages):
        if not isinstance(slot, SystemMessageSlot):
            has_begun = True
        elif has_begun:
            what = (
                "a system message after other messages: "
                "some providers refuse it, others move it to the beginning"
            )
            fix = "put its layers into the first system message or into a user message"
            yield BlueprintFinding(("calls", name, "messages", place, "system"), what, fix)


def _find_final_replies(blueprint: Blueprint, name: Name, call: CallSpec) -> BlueprintFindings:
    """Find a history that nothing is certain to follow but system messages, which may be moved."""
    for place, slot in reversed([*enumerate(call.messages)]):
        if isinstance(slot, UserMessageSlot) and _is_never_empty(blueprint, call, slot):
            return
        if isinstance(slot, HistoryMessageSlot):
            what = (
                "the request may end with a reply of the assistant: "
                "some providers refuse it, others continue that reply"
            )
            fix = "add a user message after it, with `input` or a text"
            yield BlueprintFinding(("calls", name, "messages", place, "history"), what, fix)
            return


def _is_never_empty(blueprint: Blueprint, call: CallSpec, slot: UserMessageSlot) -> bool:
    return any(_has_always_text(blueprint, call, name) for name in slot.layers)


def _has_always_text(blueprint: Blueprint, call: CallSpec, name: Name) -> bool:
    if name == INPUT_LAYER:
        return call.input != "none"
    layer = blueprint.layers[name]
    if layer.when is not None:
        return False
    match layer:
        case TextLayer(text=text):
            return bool(text.strip()) or layer.keep == "always"
        case FileLayer(file=file):
            return layer.is_required or not find_slots(file)
        case OverrideLayer():
            return True
        case _:
            return layer.keep == "always"
