"""How texts are stored in columns: plain text only, shortened or case-folded where needed."""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Content, Digest, Plain, digest_of

TITLE_CHARACTERS: Final = 120
NUL: Final = "\0"


def storable(text: str) -> str:
    """Replace NUL, which Postgres refuses in text, so that both databases store the same."""
    return text.replace(NUL, "\ufffd")


def readable(content: Content | None) -> str | None:
    """Return the text of plain content; None if it is sealed, erased or absent."""
    return content.text if isinstance(content, Plain) else None


def title_of(text: str | None) -> str | None:
    """Return the text shortened to one line."""
    if text is None:
        return None
    # Do not split a megabyte to use one line of it.
    line = " ".join(text[: 8 * TITLE_CHARACTERS].split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def sought_in(session: str, title: str | None) -> str:
    """Return the case-folded text for searches; databases case-fold differently."""
    return f"{session} {title or ''}".casefold()


def json_of(value: JsonValue) -> str:
    """Encode a value as JSON; a NUL in it is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def attribute_digest(value: JsonValue) -> Digest:
    """Return an attribute's digest, equal for a value and for its form in a query string."""
    return digest_of(value if isinstance(value, str) else json_of(value))
