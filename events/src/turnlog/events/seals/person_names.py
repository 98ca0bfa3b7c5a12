"""Names of people in sealed events: a pseudonym in the clear, and the name itself in the box.

The pseudonym of a name follows from a key of the tenant: events can be grouped by person without
the box, and nobody without that key can guess a name from it. It is all that is left once the box
cannot be opened any more. Names are found by type, as words are: each field that is marked as a
`PersonName`, and the actor of the header where it is a user.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json

from turnlog.events.content import KEYED_DIGEST, Digest, PersonField

USER_ACTOR_PREFIX: Final = "user:"
"""Before the name of a user in an actor, so that no user passes for a part of Turnlog."""

PSEUDONYM_BYTES: Final = 16
"""Bytes of a digest that a pseudonym has, so that no two people share one."""

_PSEUDONYM: Final = re.compile(r"~[A-Za-z0-9_-]{22}")

_ACTOR_START: Final = f',"actor":"{USER_ACTOR_PREFIX}'.encode()
"""Stands in the header of an event alone: in a text of it a quotation mark is escaped."""

_ACTOR: Final = re.compile(_ACTOR_START + rb'((?:[^"\\]|\\.)*)"')

_QUOTED: Final = re.compile(rb'(?<!\\)"(~[A-Za-z0-9_-]{22})"(?!:)')
"""A text of the data that is a pseudonym as a whole."""

NamePath = tuple[str, ...]
"""The steps to a name in the data of an event; an empty one leads to every item of a list."""


def is_pseudonym(name: str) -> bool:
    """Return whether a name is none of a person, but has the form of a pseudonym."""
    return _PSEUDONYM.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class PseudonymKey:
    """The key that the pseudonyms of a tenant follow from."""

    key: bytes = field(repr=False)

    def build_pseudonym(self, name: str) -> str:
        """Return the pseudonym of a name; that of a pseudonym is itself."""
        if is_pseudonym(name):
            return name
        digest = hmac.digest(self.key, b"name " + name.encode(), "sha256")[:PSEUDONYM_BYTES]
        return f"~{urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    def compute_digest(self, text: str) -> Digest:
        """Return the keyed digest of a text, from which nobody guesses it without the key."""
        return f"{KEYED_DIGEST}{hmac.digest(self.key, b'digest ' + text.encode(), 'sha256').hex()}"

    def replace_actor(self, actor: str) -> str:
        """Return an actor with the pseudonym of its user; others are no people."""
        if not actor.startswith(USER_ACTOR_PREFIX):
            return actor
        name = actor.removeprefix(USER_ACTOR_PREFIX)
        return f"{USER_ACTOR_PREFIX}{self.build_pseudonym(name)}"

    def replace_names(
        self, kind: type[BaseModel], header: bytes, data: JsonValue
    ) -> tuple[bytes, dict[str, str]]:
        """Put pseudonyms into the data of an event; return its header with one, and the names.

        The names are by pseudonym.
        """
        names: dict[str, str] = {}

        def replace(name: str) -> str:
            pseudonym = self.build_pseudonym(name)
            if pseudonym != name:
                names[pseudonym] = name
            return pseudonym

        for path in find_name_paths(kind):
            _replace_at(data, path, replace)
        if found := _ACTOR.search(header):
            pseudonym = replace(from_json(b'"%b"' % found[1])).encode()
            header = header[: found.start(1)] + pseudonym + header[found.end(1) :]
        return header, names


def restore_names(names: Mapping[str, str], header: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Return the header and the data of an event with names in the places of their pseudonyms.

    Raises `ValueError` for a name whose pseudonym stands nowhere.
    """
    quoted = {pseudonym.encode(): to_json(name) for pseudonym, name in names.items()}
    found = set[bytes]()

    def restore(match: re.Match[bytes]) -> bytes:
        found.add(match[1])
        return quoted.get(match[1], match[0])

    restored = _QUOTED.sub(restore, data)
    if (actor := _ACTOR.search(header)) and actor[1] in quoted:
        found.add(actor[1])
        header = header[: actor.start(1)] + quoted[actor[1]][1:] + header[actor.end() :]
    if not quoted.keys() <= found:
        raise ValueError(header)
    return header, restored


@cache
def find_name_paths(kind: type[BaseModel]) -> Sequence[NamePath]:
    """Return where a model, or a part of it, has names of people."""
    found = (
        (name, *path)
        for name, each in kind.model_fields.items()
        for path in (((),) if _is_marked(each.metadata) else _iterate_paths(each.annotation))
    )
    return tuple(dict.fromkeys(found))


def _is_marked(metadata: Sequence[object]) -> bool:
    return any(isinstance(each, PersonField) for each in metadata)


def _iterate_paths(annotation: Any) -> Iterator[NamePath]:  # noqa: ANN401 - the type of any field
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from find_name_paths(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated and _is_marked(inner[1:]):
        yield ()
    elif origin is Annotated:
        yield from _iterate_paths(inner[0])
    elif origin is tuple:
        yield from (("", *path) for path in _iterate_paths(inner[0]))
    elif origin in {Union, UnionType}:
        for each in inner:
            yield from _iterate_paths(each)


def _replace_at(value: JsonValue, path: NamePath, replace: Callable[[str], str]) -> None:
    """Replace what is at a path, as far as the data have it."""
    step, rest = path[0], path[1:]
    if not step:
        for each in cast("list[JsonValue]", value):
            _replace_at(each, rest, replace)
        return
    within = cast("dict[str, JsonValue]", value)
    found = within.get(step)
    if isinstance(found, str) and not rest:
        within[step] = replace(found)
    elif found is not None:
        _replace_at(found, rest, replace)
