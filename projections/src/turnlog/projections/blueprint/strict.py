"""What all pieces of a blueprint share: they are frozen, and refuse words they do not know."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
"""What an author calls something: lower case, digits, `_` and `-`."""
ADDRESS: Final = r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$"
Address = Annotated[str, Field(pattern=ADDRESS, max_length=2_000)]
"""Where something is asked over HTTP, without a user, a query or a fragment: they hold secrets."""
VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
Variable = Annotated[str, Field(pattern=VARIABLE)]
"""What a variable of the environment is called."""
HEADER: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
Header = Annotated[str, Field(pattern=HEADER)]
"""What a header is called."""


class Strict(BaseModel):
    """A piece of a blueprint; unknown words are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
