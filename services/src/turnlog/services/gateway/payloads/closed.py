"""Closed forms: what is sent and what is answered has the fields it is known for, and no others.

Above all no form has a word for a model's address, key or parameters: those are the blueprint's
and the operator's, never the caller's. What a value may be is for the blueprint to say; a form
is only the shape. Every answer about a session says up to which of its sequences it is true;
where a text is sealed or erased its field is null.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Form(BaseModel):
    """A payload; what is not named in it is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class Answer(BaseModel):
    """An answer, or a piece of one."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", from_attributes=True, use_attribute_docstrings=True
    )
