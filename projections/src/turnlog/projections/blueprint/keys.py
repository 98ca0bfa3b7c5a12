from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.schema import Blueprint

MOST_CHARACTERS: Final = 1_000
"""Maximum length of one value of a key."""


def checked_key(blueprint: Blueprint, key: Mapping[str, str]) -> dict[str, str]:
    """Check the session key of a request; raise `Refused` naming `key.<name>`."""
    names = blueprint.session.key if blueprint.session else ()
    if not names:
        detail = f"sessions of {blueprint.blueprint} are not found by a key"
        raise Refused("no-key", detail, field="key", fix="leave it out")
    for name in key:
        if name not in names:
            fix = instead_of(name[:80], names)
            field = f"key.{name[:80]}"
            raise Refused("unknown-value", f"there is no {name[:80]!r}", field=field, fix=fix)
    return {name: _value(name, key.get(name, "")) for name in names}


def _value(name: str, value: str) -> str:
    if 1 <= len(value) <= MOST_CHARACTERS:
        return value
    fix = f"send 1 to {MOST_CHARACTERS} characters"
    raise Refused("bad-key-value", f"{name} has {len(value)}", field=f"key.{name}", fix=fix)


def keyed_id(blueprint: Blueprint, key: Mapping[str, str]) -> str:
    """Return the session id for a checked key.

    The id is a digest over the blueprint's name and all names and values of the key, encoded so
    that no two keys collide. The first caller opens the session and every later one finds it.
    """
    spelt = json.dumps([blueprint.blueprint, sorted(key.items())])
    return digest_of(spelt).removeprefix("sha256:")
