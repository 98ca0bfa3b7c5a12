"""What all pieces of a blueprint share: they are frozen, and refuse words they do not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
"""What an author calls something: lower case, digits, `_` and `-`."""


class Strict(BaseModel):
    """A piece of a blueprint; unknown words are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
