"""The tool catalog: tools and prompts of servers, filtered, named and formatted.

The texts are made once and stored: one blob for each tool that a request offers, and one text each
for listing all of them in full or by name. A prompt refers to these blobs, so that it reads back
the same whatever a server says later. Servers are not trusted: a description stays on the lines of
its own tool, and all lengths are limited.
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
"""Tool names that every provider accepts."""
_MOST_OFFERS: Final = 256
"""Maximum number of tools and prompts of a profile."""
_MOST_SPELT: Final = 64_000
"""Maximum length of a formatted tool in characters; a longer one is left out."""
_MOST_SAID: Final = 4_000
"""Maximum length of a description in characters; the rest is cut off."""
_MOST_NAME: Final = 128
"""Maximum length of a name or a type that a server chose."""
_MOST_LEFT_OUT: Final = 64
"""Maximum number of excluded tools that are recorded with a reason."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool or a prompt as its server describes it."""

    tool: str
    """The name that the server uses."""
    description: str
    schema: dict[str, JsonValue]
    """JSON Schema of the arguments."""
    kind: Literal["tool", "prompt"] = "tool"


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The event that records the tools and prompts of a profile, and the texts it names by digest.
    """

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
        """The tool in OpenAI's format, which litellm translates for other providers."""
        about = _cut(self.offer.description, _MOST_SAID)
        function: dict[str, JsonValue] = {"name": self.name, "description": about}
        return {"type": "function", "function": {**function, "parameters": self.offer.schema}}


def digest_of_offers(found: Mapping[str, Iterable[Offer]]) -> Digest:
    """Return the digest of all server descriptions, by which a change is noticed."""
    said: dict[str, JsonValue] = {
        server: [[each.kind, each.tool, each.description, each.schema] for each in offers]
        for server, offers in found.items()
    }
    return digest_of(canonical(said))


def taken_up(profile: str, spec: ToolsSpec, found: Mapping[str, Iterable[Offer]]) -> TakenUp:
    """Build the catalog of a profile, in the order of the blueprint and of the servers."""
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
    """Return why a tool or prompt is left out, or None."""
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
    """Format a server's text as part of one line."""
    return _cut(" ".join(mended(text).split()), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
