"""Offers: the tools and prompts that servers have, filtered, named and spelt for models.

What a session is told of its tools is made here once and stored: one blob a tool for those that a
request offers, and one text each for telling of all of them in full or by name. A prompt refers to
these blobs, so that what was offered reads back whatever a server says by then. Servers are
strangers: what one says of a tool stands on lines of that tool alone, and none of it is endless.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of
from turnlog.events.tool import ToolPin, ToolsSnapshotted
from turnlog.projections.blueprint.storable import mended
from turnlog.projections.blueprint.tools import ServerSpec, ToolsSpec
from turnlog.projections.window.request import canonical

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes for the name of a tool."""
_MOST_OFFERS: Final = 256
"""Tools and prompts of a profile."""
_MOST_SPELT: Final = 64_000
"""Characters of one as it is spelt for models; a longer one is left out."""
_MOST_SAID: Final = 4_000
"""Characters of a description; more are cut off."""
_MOST_NAME: Final = 128
"""Characters of a name or a type that a server made up."""
_MOST_LEFT_OUT: Final = 64
"""How many of those that are left out are named."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool, or a prompt, as its server describes it."""

    tool: str
    """What the server calls it."""
    description: str
    schema: dict[str, JsonValue]
    """JSON Schema of its arguments."""
    kind: Literal["tool", "prompt"] = "tool"


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The tools and prompts of a profile, and the texts that its event names by digest."""

    event: ToolsSnapshotted
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    server: str
    offer: Offer
    idempotent: bool

    @property
    def spelt(self) -> dict[str, JsonValue]:
        """As OpenAI's protocol has it, which litellm translates for others."""
        about = _cut(self.offer.description, _MOST_SAID)
        function: dict[str, JsonValue] = {"name": self.name, "description": about}
        return {"type": "function", "function": {**function, "parameters": self.offer.schema}}


def digest_of_offers(found: Mapping[str, Iterable[Offer]]) -> Digest:
    """Digest of everything servers say of what they have, by which a change of it is known."""
    said: dict[str, JsonValue] = {
        server: [[each.kind, each.tool, each.description, each.schema] for each in offers]
        for server, offers in found.items()
    }
    return digest_of(canonical(said))


def taken_up(profile: str, spec: ToolsSpec, found: Mapping[str, Iterable[Offer]]) -> TakenUp:
    """Take up what servers offer, in the order of the blueprint and of the servers."""
    every: dict[tuple[str, str], _Named] = {}
    left_out: dict[str, str] = {}
    for server, of in spec.servers.items():
        for offer in found.get(server, ()):
            each = _Named(f"{server}_{offer.tool}", server, offer, offer.tool in of.idempotent)
            if why := _against(each, of, every):
                if len(left_out) < _MOST_LEFT_OUT:
                    left_out[_flat(each.name)] = why
            else:
                every[offer.kind, each.name] = each
    named = [each for each in every.values() if each.offer.kind == "tool"]
    prompts = [each for each in every.values() if each.offer.kind == "prompt"]
    spelt = {each.name: canonical(each.spelt) for each in named}
    full, names = "\n".join(map(_in_full, named)), "\n".join(f"- {each.name}" for each in named)
    asked = ("\n".join(map(_in_full, prompts)),) if prompts else ()
    pins = {
        each.name: ToolPin(
            digest=digest_of(spelt[each.name]),
            server=each.server,
            tool=each.offer.tool,
            idempotent=each.idempotent,
        )
        for each in named
    }
    event = ToolsSnapshotted(
        profile=profile,
        digest=digest_of("\n".join([full, *spelt.values(), *asked])),
        tools=pins,
        full=digest_of(full),
        names=digest_of(names),
        left_out=left_out,
        prompts=tuple(each.name for each in prompts),
        prompts_text=digest_of(asked[0]) if asked else None,
    )
    return TakenUp(event, (*spelt.values(), full, names, *asked))


def _against(named: _Named, spec: ServerSpec, taken: Collection[tuple[str, str]]) -> str | None:
    """Say why an offer is left out; none where it is not."""
    offer = named.offer
    if offer.kind == "tool" and spec.only is not None and offer.tool not in spec.only:
        return "not among `only`"
    if offer.tool in spec.except_:
        return "among `except`"
    if not _NAME.fullmatch(named.name):
        return "no model takes such a name"
    if (offer.kind, named.name) in taken:
        return "another has that name"
    if len(taken) == _MOST_OFFERS:
        return f"there are {_MOST_OFFERS} before it"
    if len(canonical(named.spelt)) > _MOST_SPELT:
        return f"it is described at more than {_MOST_SPELT} characters"
    return None


def _in_full(named: _Named) -> str:
    lines = (f"    {line}" for line in _arguments(named.offer.schema))
    return "\n".join((f"- {named.name}: {_flat(named.offer.description, _MOST_SAID)}", *lines))


def _arguments(schema: dict[str, JsonValue]) -> Iterator[str]:
    properties, required = schema.get("properties"), schema.get("required")
    wanted = required if isinstance(required, list) else []
    for name, said in properties.items() if isinstance(properties, dict) else ():
        of = said if isinstance(said, dict) else {}
        must = ", required" if name in wanted else ""
        about = _flat(str(of.get("description") or ""), _MOST_SAID)
        yield f"{_flat(name)} ({_kind(of)}{must})" + (f": {about}" if about else "")


def _kind(said: dict[str, JsonValue]) -> str:
    kind = said.get("type")
    return _flat(kind) if isinstance(kind, str) else "any"


def _flat(text: str, most: int = _MOST_NAME) -> str:
    """Give what a server says as a piece of one line."""
    return _cut(" ".join(mended(text).split()), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
