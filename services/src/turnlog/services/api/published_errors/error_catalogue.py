"""Every code that HTTP, the command line and the clients give, in one table.

The status of an answer, the exit code of a command and the page `docs/reference/errors.md` are read
from it. A code that is not in it would be a bug: a test compares it with every refusal in the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode
from turnlog.services.api.published_errors.installation_codes import INSTALLATION_CODES
from turnlog.services.api.published_errors.request_codes import REQUEST_CODES
from turnlog.services.api.published_errors.session_codes import SESSION_CODES

ERROR_CODES: Final[Mapping[str, ErrorCode]] = {
    **REQUEST_CODES,
    **SESSION_CODES,
    **INSTALLATION_CODES,
}

UNKNOWN_ERROR: Final = ErrorCode(meaning="A refusal of another release.", action="")
"""What is known of a code that this release does not have."""


def get_error_code(code: str) -> ErrorCode:
    """Return what is published of a code."""
    return ERROR_CODES.get(code, UNKNOWN_ERROR)
