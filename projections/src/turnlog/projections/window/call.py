"""What a call is asked with, and what comes out: the vocabulary of assembling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.manifest import Manifest
from turnlog.projections.library.picked import Gathered
from turnlog.projections.session.state import Said
from turnlog.projections.window.request import Request

ASSEMBLER: Final = 1
"""Version of the assembler; raised whenever it gives another prompt for the same record."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be assembled."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """As litellm names it."""
    provider: str
    """For which prompt files are resolved."""
    at: str
    """Clock reading, RFC 3339; recorded, so that the result can be had again."""
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What the turn brings along, as its event holds it."""
    gathered: Gathered = field(default_factory=lambda: Gathered({}))
    """What the library gave for it; recorded with it."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The call of the same kind before this one."""

    call: str
    """`3.1`."""
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be fetched before a call can be assembled."""

    blobs: tuple[Digest, ...]
    said: tuple[Said, ...]
    older: bool
    """Whether the state does not reach back far enough: fold the whole session, ask again."""
    earlier: int | None = None
    """Where the prompt of the call of this kind before it lies in the stream, if there was one."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What was fetched: blobs by digest, what was said by where it stands, the call before."""

    blobs: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    said: Mapping[Said, str] = field(default_factory=dict[Said, str])
    earlier: Earlier | None = None


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt, and the record of how it came to be."""

    request: Request
    manifest: Manifest


def provider_of(model: str) -> str:
    """Name the provider in a model as litellm spells it: `openai/gpt-x` is `openai`."""
    provider, slash, _ = model.partition("/")
    return provider if slash else "openai"
