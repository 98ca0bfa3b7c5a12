"""How other programs write a server of a tools file: their words, in the words of this product.

Every program with MCP has words of its own beside those that all share. Those with the same meaning
are translated, spellings of a transport are unified, and words that mean nothing here are left out
and listed, so that a check can name them. A word that is almost one of ours is kept: it is a
mistake, and `aprove` must not run a tool that a person was to approve.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.schema.strict_model import NAME_PATTERN

_SYNONYMS: Final[Mapping[str, str]] = {
    "alwaysAllow": "auto_approve",
    "autoApprove": "auto_approve",
    "disabledTools": "except",
    "enabled": "disabled",
    "environment": "env",
    "excludeTools": "except",
    "httpUrl": "url",
    "includeTools": "only",
    "serverUrl": "url",
    "timeout": "seconds",
    "transport": "type",
    "transportType": "type",
}
"""Words of other programs, each with ours."""

_TRANSPORTS: Final[Mapping[str, str]] = {
    "http": "http",
    "local": "stdio",
    "remote": "http",
    "sse": "sse",
    "stdio": "stdio",
    "streamablehttp": "http",
}
"""Transports by their spelling in small letters without `-`, `_` and blanks."""

_LEAST_MILLISECONDS: Final = 1_000
"""A timeout from here on is in milliseconds: some programs write them, and none waits so long."""

_LIKENESS: Final = 0.85
"""How similar a word must be to one of ours to be a mistake."""

_MAX_NAME_CHARACTERS: Final = 64

_DIGEST_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class TranslatedEntry:
    """A server in our words."""

    value: dict[str, JsonValue]
    written: Mapping[str, str]
    """Each translated word with the one that the file has, for faults."""
    unknown: tuple[str, ...]
    """Words that mean nothing here and were left out."""


def is_address(entry: Mapping[str, JsonValue]) -> bool:
    """Return whether a server is reached at an address."""
    return any(_SYNONYMS.get(word, word) == "url" for word in entry)


def translate_command(entry: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return a server with its program as a text, which may be a list or an object too."""
    command = entry.get("command")
    if isinstance(command, list) and command and "args" not in entry:
        return {**entry, "command": command[0], "args": command[1:]}
    if isinstance(command, dict) and "path" in command:
        more = {word: content for word, content in command.items() if word != "path"}
        return {**entry, **more, "command": command["path"]}
    return entry


def translate_entry(
    entry: Mapping[str, JsonValue], known_words: Collection[str]
) -> TranslatedEntry:
    """Translate a server; `known_words` are the words that a server of its kind may have."""
    value, written, unknown = dict[str, JsonValue](), dict[str, str](), list[str]()
    for word, content in translate_command(entry).items():
        ours = _SYNONYMS.get(word, word)
        is_known = ours in known_words or get_close_matches(word, known_words, 1, _LIKENESS)
        if content is None or word == "description" or (ours != word and ours in entry):
            continue
        if is_known:
            value[ours] = _translate_value(ours, word, content)
            written[ours] = word
        else:
            unknown.append(word)
    return TranslatedEntry(value, written, tuple(unknown))


def _translate_value(ours: str, word: str, content: JsonValue) -> JsonValue:
    if ours == "type" and isinstance(content, str):
        return _TRANSPORTS.get(re.sub(r"[-_ ]", "", content).lower(), content)
    if word == "enabled" and isinstance(content, bool):
        return not content
    if ours == "args" and isinstance(content, list):
        return [_write_as_text(each) for each in content]
    if ours in {"env", "headers"} and isinstance(content, dict):
        values = {name: _write_as_text(each) for name, each in content.items()}
        return {name: each for name, each in values.items() if each is not None}
    if word == "timeout" and isinstance(content, int | float) and content >= _LEAST_MILLISECONDS:
        return content / 1_000
    return content


def _write_as_text(value: JsonValue) -> JsonValue:
    """Return a number or a truth value as other programs pass it on; anything else as it is."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def derive_server_name(written: str) -> str:
    """Return the name that this product uses for a server of another program's file.

    Other letters become small ones of ASCII and the rest `-`; what would be too long or empty ends
    with a digest of the written name.
    """
    if re.fullmatch(NAME_PATTERN, written):
        return written
    ascii_text = unicodedata.normalize("NFKD", written).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9_-]+", "-", ascii_text).strip("-_")
    digest = hashlib.sha256(written.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    if not name[:1].isalpha():
        name = f"server-{name or digest}"
    if len(name) > _MAX_NAME_CHARACTERS:
        name = f"{name[: _MAX_NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}-{digest}"
    return name
