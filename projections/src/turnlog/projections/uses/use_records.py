"""What is asked of the index of uses, and what it has of a session: the input of tracing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turnlog.projections.uses.event_texts import EventText
from turnlog.projections.uses.prompt_sources import PromptSource

UseHopKind = Literal["summary", "carried", "step", "reply", "parent", "child", "fork"]
"""What a source went through: a summary, a carried text, a step of a plan, a reply, the request of
a parent, the turn of a child, or the copy of a fork.
"""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class UseHop:
    """A text through which a source reached a prompt."""

    kind: UseHopKind
    session: str
    """The session of that text; of a fork, the session that it was copied from or to."""
    turn: int = 0
    """The turn that it is the reply or the request of; 0 for the others."""
    sequence: int = 0
    """Sequence of the event that holds it; 0 for the others."""


UseWay = tuple[UseHop, ...]
"""How a source reached a prompt; empty where the prompt has the source itself."""


@dataclass(frozen=True, slots=True, order=True)
class TurnNode:
    """All texts of a turn."""

    turn: int


@dataclass(frozen=True, slots=True, order=True)
class EventNode:
    """The text of an event."""

    sequence: int


@dataclass(frozen=True, slots=True, order=True)
class ChildReplyNode:
    """What a turn of a child replied to the session that asked for it."""

    session: str
    turn: int


@dataclass(frozen=True, slots=True, order=True)
class ResultNode:
    """The result of a tool, by the call that asked for it and the id of the request."""

    call: str
    request: str


TextNode = TurnNode | EventNode | ChildReplyNode | ResultNode


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source that is not a text of one session."""

    kind: Literal["segment", "document", "digest", "label"]
    name: str
    """Number of a segment, `COLLECTION/ENTRY`, digest, or label."""
    version: int | None = None
    """The only version or revision that is meant; None for all."""

    def is_named_by(self, source: PromptSource) -> bool:
        """Return whether a prompt that has `source` has this one."""
        if self.kind == "digest":
            return source.digest == self.name
        is_version = self.version is None or self.version == source.first
        return (self.kind, self.name) == (source.kind, source.name) and is_version


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedCall:
    """A call, and what its prompt was made from."""

    call: str
    turn: int
    sequence: int
    """Sequence of the event that fixed its prompt."""
    sources: tuple[PromptSource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChild:
    """A turn of a child session, and the tool request that asked for it."""

    call: str
    request: str
    session: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSession:
    """What the index has of a session."""

    session: str
    parent: str | None = None
    """The session that asks it for turns."""
    copies: tuple[tuple[str, int], ...] = ()
    """Sessions with the same events up to a sequence: its forks, and what it was forked from."""
    calls: tuple[IndexedCall, ...] = ()
    texts: tuple[EventText, ...] = ()
    children: tuple[RequestedChild, ...] = ()
