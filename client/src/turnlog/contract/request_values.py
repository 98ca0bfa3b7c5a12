"""The forms of values that several requests have."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from turnlog.contract.payload_models import MAX_INT

USER_NAME_FORM: Final = r"[!-~](?:[ -~]{0,126}[!-~])?"
"""Regular expression of a user's name: printable ASCII, which every header can have."""

USER_NAME_PATTERN: Final = f"^{USER_NAME_FORM}$"

ShortName = Annotated[str, Field(min_length=1, max_length=64)]

CommandReason = Annotated[str, Field(min_length=1, max_length=1_000)]

SessionTitle = Annotated[str, Field(max_length=200)]

SessionLabel = Annotated[str, Field(min_length=1, max_length=64)]

SessionLabels = Annotated[list[SessionLabel], Field(max_length=20)]

TurnNumber = Annotated[int, Field(ge=1, le=MAX_INT)]

MODEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:@-]*(/[A-Za-z0-9_.:@-]+)*$"

ModelName = Annotated[str, Field(pattern=MODEL_PATTERN, max_length=200)]
"""A model name as litellm spells it; it cannot be a URL."""

MAX_KEY_CHARACTERS: Final = 1_000
"""Maximum length of one value of a session's key."""
