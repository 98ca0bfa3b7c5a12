"""The names that models know tools by: an alias where models take no such name.

Model servers accept letters, digits, `_` and `-` of ASCII, at most 64 of them; servers of tools use
dots, slashes and every script. A snapshot pins the alias beside the tool, so that the log and all
views have the name of the server, and prompts the alias. The dialect of a model may have a rule of
its own, by which the names in its requests are chosen.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.model.manifest import ToolNameRule
from turnlog.events.model.tool_events import ToolPin, ToolsSnapshotted

_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every provider accepts."""

_OTHER_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]+")

_MAX_ALIAS_CHARACTERS: Final = 64

_DIGEST_CHARACTERS: Final = 8


def assign_aliases(names: Iterable[str]) -> dict[str, str]:
    """Return an alias for each name that models do not take; a name's own order does not matter.

    An alias is the name with other characters replaced. It ends with a digest of the name where it
    would be too long, where letters are lost, and where two names would be equal.
    """
    every = dict.fromkeys(names)
    readable = {name: _replace_characters(name) for name in every if not is_model_name(name)}
    counts = Counter([*readable.values(), *(name for name in every if is_model_name(name))])
    return {
        name: alias if counts[alias] == 1 and _is_whole(name, alias) else _add_digest(alias, name)
        for name, alias in readable.items()
    }


def is_model_name(name: str) -> bool:
    """Return whether models take a name as it is."""
    return _MODEL_NAME.fullmatch(name) is not None


def get_model_name(name: str, pin: ToolPin) -> str:
    """Return the name that models know a pinned tool by."""
    return pin.alias or name


def list_model_names(snapshot: ToolsSnapshotted | None) -> Mapping[str, str]:
    """Return the name of each pinned tool by the name that models know it by."""
    pins = snapshot.tools.items() if snapshot else ()
    return {get_model_name(name, pin): name for name, pin in pins}


_CHARACTERS: Final = {"word": "A-Za-z0-9_", "dashed": "A-Za-z0-9_-", "dotted": "A-Za-z0-9_.-"}


def choose_sent_name(rule: ToolNameRule | None, name: str, alias: str | None) -> str:
    """Return the name that a server is sent of a tool: its own, its alias, or one made of it.

    Names that are made end with a digest of the own name, so that no two are equal.
    """
    known = alias or name
    if rule is None:
        return known
    taken = _CHARACTERS[rule.characters]
    first = "A-Za-z_" if rule.first == "letter" else taken
    pattern = re.compile(f"[{first}][{taken}]{{0,{rule.length - 1}}}")
    for each in (name, known):
        if pattern.fullmatch(each):
            return each
    made = re.sub(f"[^{taken}]+", "_", known)
    made = made if re.match(f"[{first}]", made) else f"_{made}"
    return _add_digest(made, name, rule.length)


def _replace_characters(name: str) -> str:
    return _OTHER_CHARACTERS.sub("_", _strip_accents(name)).strip("_")


def _strip_accents(name: str) -> str:
    parts = unicodedata.normalize("NFKD", name)
    return "".join(each for each in parts if not unicodedata.combining(each))


def _is_whole(name: str, alias: str) -> bool:
    """Return whether an alias has all letters of a name and is no longer than models take."""
    return is_model_name(alias) and _strip_accents(name).isascii()


def _add_digest(alias: str, name: str, length: int = _MAX_ALIAS_CHARACTERS) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{alias[: length - _DIGEST_CHARACTERS - 1]}_{digest}"
