"""How texts stand in rows: only what is plain, shortened and folded where that is the purpose."""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Content, Digest, Plain, digest_of

TITLE_CHARACTERS: Final = 120
NUL: Final = "\0"


def storable(text: str) -> str:
    """Replace NUL, which Postgres refuses in a text, so that both databases hold the same."""
    return text.replace(NUL, "\ufffd")


def readable(content: Content | None) -> str | None:
    """Give a text that may be shown; none when it is sealed, erased or was never there."""
    return content.text if isinstance(content, Plain) else None


def title_of(text: str | None) -> str | None:
    """Shorten a text to one line."""
    if text is None:
        return None
    # Splitting a megabyte to keep a line would be waste.
    line = " ".join(text[: 8 * TITLE_CHARACTERS].split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def sought_in(session: str, title: str | None) -> str:
    """Give what a search looks through; folded here, since databases fold differently."""
    return f"{session} {title or ''}".casefold()


def json_of(value: JsonValue) -> str:
    """Spell a value as JSON; a NUL in it is escaped and so survives."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def attribute_digest(value: JsonValue) -> Digest:
    """Digest an attribute; the same for a value and for its spelling in a query string."""
    return digest_of(value if isinstance(value, str) else json_of(value))
