"""The base model of all blueprint parts, and the string types that they share."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,63}$"

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""A name chosen by an author: lower case letters, digits, `_` and `-`."""

WORD_PATTERN: Final = r"^[a-z][a-z_-]{0,63}$"

ADDRESS_PATTERN: Final = r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$"

HttpAddress = Annotated[str, Field(pattern=ADDRESS_PATTERN, max_length=2_000)]
"""An HTTP address without user, query or fragment, because those may contain secrets."""

VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"

EnvironmentVariable = Annotated[str, Field(pattern=VARIABLE_PATTERN)]
"""The name of an environment variable."""

HEADER_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

HeaderName = Annotated[str, Field(pattern=HEADER_PATTERN)]
"""The name of an HTTP header."""


MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:@-]*(/[A-Za-z0-9_.:@-]+)*$"

ModelName = Annotated[str, Field(pattern=MODEL_PATTERN, max_length=200)]
"""A model name as litellm spells it; it cannot be a URL."""


class StrictModel(BaseModel):
    """Frozen base of all blueprint parts; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"

LOCALE_PATTERN: Final = r"^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8}){0,4}$"

LocaleTag = Annotated[str, Field(pattern=LOCALE_PATTERN)]
"""A language tag such as `en` or `pt-BR`."""

MAX_KEY_CHARACTERS: Final = 1_000
"""Maximum length of one value of a session's key."""
