"""Identifiers of tenants, sessions and events, and their validation.

Every id is validated before it becomes part of a subject, so that a tenant cannot address another
tenant's sessions.
"""

from __future__ import annotations

import re
from typing import Final

from turnlog.events.errors import Refused

ID_PATTERN: Final = "[A-Za-z0-9_-]{1,64}"
"""Regular expression of an id."""


_ID_REGEX: Final = re.compile(ID_PATTERN)


def validate_id(value: str, field: str) -> str:
    """Return `value`, or refuse it and name `field`; an id has 1 to 64 of `A-Z a-z 0-9 _ -`."""
    if _ID_REGEX.fullmatch(value) is None:
        raise Refused(
            "bad-id",
            "it is not an id",
            field=field,
            fix="use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        )
    return value
