"""A hypothetical change to ladders: other settings of the steps that a blueprint has.

The change is written as a step is in a blueprint, such as `{"drop_oldest_pairs": {"to": "80%"}}`,
and sets these of the step's values in every ladder that has it; null takes a value away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.projections.blueprint.schema.budget_specs import LadderStep
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.blueprint.validation.budget_checks import check_budgets

LadderChange = Mapping[str, Mapping[str, JsonValue]]
"""Values by the name of the step that they are of."""

STEP_NAMES: Final = tuple(LadderStep.model_fields)


def check_step_names(change: LadderChange) -> None:
    """Raise `Refused` for a step that no ladder can have."""
    for name in change:
        if name not in STEP_NAMES:
            detail = f"there is no step {quote_sent_name(name)}"
            raise Refused(
                "invalid", detail, field="ladder", fix=suggest_word(name[:80], STEP_NAMES)
            )


def change_ladders(blueprint: Blueprint, change: LadderChange) -> Blueprint:
    """Return a blueprint with these settings of its steps; raise `Refused` if it cannot have them.

    The steps are looked for in every ladder of its budgets.
    """
    written: dict[str, Any] = json.loads(encode_blueprint(blueprint))
    steps = [step for ladder in _iterate_ladders(written.get("budget")) for step in ladder]
    for name, values in change.items():
        found = [step for step in steps if name in step]
        if not found:
            raise _build_refusal(blueprint, name, {each for step in steps for each in step})
        for step in found:
            step[name] = _change_values(name, step[name], values)
    try:
        changed = Blueprint.model_validate_json(json.dumps(written), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        fix = "write the values as the step has them in a blueprint"
        raise Refused("invalid", f"{where}: {first['msg']}", field="ladder", fix=fix) from None
    for fault in check_budgets(changed):
        where = ".".join(map(str, fault.path))
        raise Refused("invalid", f"{where}: {fault.what}", field="ladder", fix=fault.fix)
    return changed


def _change_values(name: str, before: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    known = before if isinstance(before, dict) else {}
    after: JsonValue = {
        key: value for key, value in {**known, **values}.items() if value is not None
    }
    # A step on pictures is a word where it has no values.
    return "oldest" if name == "drop_images" and not after else after


def _build_refusal(blueprint: Blueprint, name: str, others: set[str]) -> Refused:
    detail = f"no ladder of {blueprint.blueprint} has the step {name}"
    fix = f"change one that it has: {', '.join(sorted(others))}" if others else "give it a ladder"
    return Refused("invalid", detail, field=f"ladder.{name}", fix=fix)


def _iterate_ladders(written: JsonValue) -> Iterator[list[dict[str, JsonValue]]]:
    """Yield the ladders below a value, which are those of budgets, sections and components."""
    if not isinstance(written, dict):
        return
    for name, value in written.items():
        if name == "ladder" and isinstance(value, list):
            yield [step for step in value if isinstance(step, dict)]
        else:
            yield from _iterate_ladders(value)
