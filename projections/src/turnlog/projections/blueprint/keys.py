from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import suggest_word
from turnlog.projections.blueprint.schema import Blueprint

MAX_KEY_CHARACTERS: Final = 1_000
"""Maximum length of one value of a key."""


def check_session_key(blueprint: Blueprint, key: Mapping[str, str]) -> dict[str, str]:
    """Check the session key of a request; raise `Refused` naming `key.<name>`."""
    names = blueprint.session.key if blueprint.session else ()
    if not names:
        detail = f"sessions of {blueprint.blueprint} are not found by a key"
        raise Refused("no-key", detail, field="key", fix="leave it out")
    for name in key:
        if name not in names:
            fix = suggest_word(name[:80], names)
            field = f"key.{name[:80]}"
            raise Refused("unknown-value", f"there is no {name[:80]!r}", field=field, fix=fix)
    return {name: _check_key_value(name, key.get(name, "")) for name in names}


def _check_key_value(name: str, value: str) -> str:
    if 1 <= len(value) <= MAX_KEY_CHARACTERS:
        return value
    fix = f"send 1 to {MAX_KEY_CHARACTERS} characters"
    raise Refused("bad-key-value", f"{name} has {len(value)}", field=f"key.{name}", fix=fix)


def compute_session_id(blueprint: Blueprint, key: Mapping[str, str]) -> str:
    """Return the session id for a checked key.

    The id is a digest over the blueprint's name and all names and values of the key, encoded so
    that no two keys collide. The first caller opens the session and every later one finds it.
    """
    spelt = json.dumps([blueprint.blueprint, sorted(key.items())])
    return compute_digest(spelt).removeprefix("sha256:")
