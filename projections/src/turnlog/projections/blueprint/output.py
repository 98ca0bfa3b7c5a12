"""The form of an answer, as an author writes it: JSON by a schema, mended where it nearly is.

A schema in a file beside the blueprint is read when the blueprint is, and stands in what sessions
are pinned to, so that editing the file reaches new sessions only.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from turnlog.projections.blueprint.strict import Strict

_FILE: Final = re.compile(r"[\w-]+\.json")


def _form(written: object) -> object:
    named = isinstance(written, str) and (written == "plan" or _FILE.fullmatch(written))
    if named or isinstance(written, dict):
        return written  # pyright: ignore[reportUnknownVariableType] - what it holds is checked next
    what = "be `plan`, a file beside the blueprint such as `plan.json`, or a JSON Schema"
    raise PydanticCustomError("output_form", what)


class OutputSpec(Strict):
    """What an answer must be."""

    schema_: Annotated[str | dict[str, JsonValue], BeforeValidator(_form), Field(alias="schema")]
    """`plan`, a file beside the blueprint such as `plan.json`, or a JSON Schema written out."""
    repair: bool = True
    """Whether common faults are mended; without it, whatever is not right is asked for again."""
