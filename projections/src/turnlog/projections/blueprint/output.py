"""The form of an answer, as an author writes it: JSON by a schema, mended where it nearly is.

A schema in a file beside the blueprint is read when the blueprint is, and stands in what sessions
are pinned to, so that editing the file reaches new sessions only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from turnlog.projections.blueprint.strict import Strict


class OutputSpec(Strict):
    """What an answer must be."""

    schema_: Annotated[
        Literal["plan"] | Annotated[str, Field(pattern=r"^[\w-]+\.json$")] | dict[str, JsonValue],
        Field(alias="schema"),
    ]
    """`plan`, a file beside the blueprint such as `plan.json`, or a JSON Schema written out."""
    repair: bool = True
    """Whether common faults are mended; without it, whatever is not right is asked for again."""
