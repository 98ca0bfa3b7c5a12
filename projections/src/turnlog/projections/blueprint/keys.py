"""Keys: what a session is found by, where its caller knows no id of it.

The id is a digest over the blueprint's name and every name and value of the key, spelt so that no
two keys are spelt alike. So whoever comes first opens the session, and everybody finds the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.schema import Blueprint

MOST_CHARACTERS: Final = 1_000
"""What one value of a key may have."""


def checked_key(blueprint: Blueprint, key: Mapping[str, str]) -> dict[str, str]:
    """Check what a session is to be found by; raises `Refused` naming `key.<name>`."""
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
    """Give the id of the session that is found by a checked key."""
    spelt = json.dumps([blueprint.blueprint, sorted(key.items())])
    return digest_of(spelt).removeprefix("sha256:")
