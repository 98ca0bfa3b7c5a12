"""The base model of all blueprint parts, and the string types that they share."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
"""A name chosen by an author: lower case letters, digits, `_` and `-`."""
ADDRESS: Final = r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$"
Address = Annotated[str, Field(pattern=ADDRESS, max_length=2_000)]
"""An HTTP address without user, query or fragment, because those may contain secrets."""
VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
Variable = Annotated[str, Field(pattern=VARIABLE)]
"""The name of an environment variable."""
HEADER: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
Header = Annotated[str, Field(pattern=HEADER)]
"""The name of an HTTP header."""


class Strict(BaseModel):
    """Frozen base of all blueprint parts; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
