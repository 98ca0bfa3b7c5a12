"""How texts are stored in columns: plain text only, shortened or case-folded where needed."""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest

TITLE_CHARACTERS: Final = 120

NUL: Final = "\0"


def replace_nul(text: str) -> str:
    """Replace NUL, which Postgres refuses in text, so that both databases store the same."""
    return text.replace(NUL, "\ufffd")


def format_title(text: str | None) -> str | None:
    """Return the text shortened to one line."""
    if text is None:
        return None
    # Do not split a megabyte to use one line of it.
    line = " ".join(text[: 8 * TITLE_CHARACTERS].split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def build_search_text(session: str, title: str | None) -> str:
    """Return the case-folded text for searches; databases case-fold differently."""
    return f"{session} {title or ''}".casefold()


def encode_json(value: JsonValue) -> str:
    """Encode a value as JSON; a NUL in it is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compute_attribute_digest(value: JsonValue) -> Digest:
    """Return an attribute's digest, equal for a value and for its form in a query string."""
    return compute_digest(value if isinstance(value, str) else encode_json(value))
