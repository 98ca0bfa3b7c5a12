from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from turnlog.projections.blueprint.strict import StrictModel

_SCHEMA_FILE_PATTERN: Final = re.compile(r"[\w-]+\.json")


def _check_output_form(written: object) -> object:
    named = isinstance(written, str) and (written == "plan" or _SCHEMA_FILE_PATTERN.fullmatch(written))
    if named or isinstance(written, dict):
        return written  # pyright: ignore[reportUnknownVariableType] - what it holds is checked next
    what = "be `plan`, a file beside the blueprint such as `plan.json`, or a JSON Schema"
    raise PydanticCustomError("output_form", what)


class OutputSpec(StrictModel):
    """The JSON form that an answer must have.

    A schema file beside the blueprint is read with the blueprint and becomes part of what sessions
    pin, so that editing the file affects new sessions only.
    """

    schema_: Annotated[str | dict[str, JsonValue], BeforeValidator(_check_output_form), Field(alias="schema")]
    """`plan`, a file beside the blueprint such as `plan.json`, or an inline JSON Schema."""
    repair: bool = True
    """True if common faults are repaired; otherwise an invalid answer is requested again."""
