"""Secrets in texts of strangers: what a tool server wrote to stderr, or a function raised.

Such a text is recorded and logged, so it must contain no secret (values that were passed to the
server, and whatever has the form of a key). A text is masked before it is cut, so that no part of a
secret remains. An address that an operator set is shown without its credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

SECRET_MASK: Final = "••••"  # noqa: S105 - what is shown instead of one

_MIN_WORD: Final = 4
"""Shorter values are not masked: `1` and `on` would make every text unreadable."""

_MIN_ANYWHERE: Final = 8
"""Values from this length on are masked within words too."""

_CREDENTIAL_NAME: Final = (
    r"[\w.-]*(?:api[_-]?key|access[_-]?key|private[_-]?key|token|secret|passw(?:or)?d|passphrase"
    r"|credential|authorization|cookie)[\w.-]*"
)

_SECRET_VARIABLE: Final = re.compile(
    rf"{_CREDENTIAL_NAME}|\w*(?:_KEY|_PASS|_PWD|_AUTH|_URL|_DSN)", re.IGNORECASE
)

_SECRET_FORMS: Final = (
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE), rf"\1 {SECRET_MASK}"),
    (re.compile(r"(?<=://)[^\s/@]+(?=@)"), SECRET_MASK),
    (
        re.compile(
            rf"(\b{_CREDENTIAL_NAME}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
            re.IGNORECASE,
        ),
        rf"\1{SECRET_MASK}",
    ),
    (
        re.compile(
            r"\b(?:sk-[\w-]{8,}|gh[opsur]_\w{8,}|github_pat_\w{8,}|xox[a-z]-[\w-]{8,}"
            r"|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w.-]+)"
        ),
        SECRET_MASK,
    ),
)
"""Forms of secrets, each with what replaces it."""


def replace_secrets(line: str, values: Iterable[str] = ()) -> str:
    """Return a line without the given values and without what has the form of a secret.

    The time grows with the square of its length.
    """
    # A value of several lines is written line by line, and one value may contain another.
    parts = {part.strip() for value in values for part in value.splitlines()}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= _MIN_ANYWHERE:
            line = line.replace(part, SECRET_MASK)
        elif len(part) >= _MIN_WORD:
            line = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", SECRET_MASK, line)
    for form, mask in _SECRET_FORMS:
        line = form.sub(mask, line)
    return line


def list_secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the variables that are called like secrets, or like addresses."""
    return tuple(value for name, value in environ.items() if _SECRET_VARIABLE.fullmatch(name))


def hide_credentials(address: str) -> str:
    """Return a URL, or several separated by `,`, without credentials and query, to be shown."""
    return ",".join(map(_hide_url_credentials, address.split(",")))


def _hide_url_credentials(url: str) -> str:
    parts = urlsplit(url)
    if not parts.scheme:
        return SECRET_MASK
    user, at, host = parts.netloc.rpartition("@")
    masked = f"{SECRET_MASK if user else ''}{at}{host}"
    return f"{parts.scheme}://{masked}{parts.path}"
