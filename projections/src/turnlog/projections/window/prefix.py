"""Where a prompt stops being what the call before it said: what a provider's cache can reuse.

Two manifests and the turns between them are enough; no text is read. A prompt is taken apart into
the texts its messages are made of, tools first, as providers lay them out. A message of the history
is never rendered in another way later, so a turn whose texts stand where they stood is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from turnlog.events.content import Digest, digest_of
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromSegment,
    FromTurns,
    Part,
    Place,
    Prefix,
)
from turnlog.projections.session.state import TurnRef
from turnlog.projections.window.call import Earlier
from turnlog.projections.window.memory import messages_in

Turns = Mapping[int, TurnRef]


@dataclass(frozen=True, slots=True)
class Mark:
    """One text of a prompt, as far as it can be told from others without reading it."""

    role: Place | None
    opens: bool
    """Whether a message begins with it."""
    digest: Digest | None
    """None where it is no longer known, so that it is like no other."""
    shape: tuple[object, ...] = ()
    """What stands around it, and what was done to it."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A part, and the texts it is made of."""

    part: Part
    marks: tuple[Mark, ...]


def common_prefix(earlier: Earlier, parts: Iterable[Part], turns: Turns) -> Prefix:
    """Compare a prompt with an earlier one; `turns` are those the session has settled by now."""
    before = list(marked(earlier.manifest.parts, turns, earlier.manifest.sequence))
    return shared(earlier.call, before, list(marked(parts, turns, None)))


def shared(call: str, before: list[Marked], now: list[Marked]) -> Prefix:
    """Compare a prompt with that of a call, both taken apart."""
    texts = [mark for marked in before for mark in marked.marks]
    same = _same(texts, [mark for marked in now for mark in marked.marks])
    return Prefix(
        call=call,
        messages=sum(mark.opens for mark in texts[:same]),
        tokens=sum(marked.part.tokens for marked in before[: _place(before, same)]),
        ended_by=_ending(before, now, same) if same < len(texts) else None,
    )


def _same(before: list[Mark], now: list[Mark]) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    shorter = min(len(before), len(now))
    return next((at for at, (a, b) in pairs if a != b or a.digest is None), shorter)


def _place(prompt: list[Marked], text: int) -> int:
    """Say which part a text belongs to, so many parts being wholly in front of it."""
    for place, marked in enumerate(prompt):
        text -= len(marked.marks)
        if text < 0:
            return place
    return len(prompt)


def _ending(before: list[Marked], now: list[Marked], text: int) -> str:
    """Name the layer that went away, or else the one that stands in its place."""
    was = before[_place(before, text)].part.layer
    place = _place(now, text)
    gone = was not in {marked.part.layer for marked in now}
    return was if gone or place == len(now) else now[place].part.layer


def marked(parts: Iterable[Part], turns: Turns, since: int | None) -> Iterator[Marked]:
    """Take a prompt apart; `since` is its sequence where `turns` are those of a later one."""
    message: int | None = None
    for part in sorted((part for part in parts if part.kept), key=_tools_first):
        opens = part.message is not None and part.message != message
        message = part.message
        yield Marked(part, tuple(_marks(part, turns, since, opens=opens)))


def _tools_first(part: Part) -> bool:
    return part.role != "tools"


def _marks(part: Part, turns: Turns, since: int | None, *, opens: bool) -> Iterator[Mark]:
    match part.source:
        case FromTurns(first=first, last=last):
            for turn in range(first, last + 1):
                yield from _said(turns.get(turn), since)
        case FromBlob(digest=digest) | FromSegment(digest=digest) if part.digest is None:
            yield Mark(part.role, opens, digest, _shape(part))
        case FromBlueprint(text=text):
            yield Mark(part.role, opens, digest_of(text), _shape(part))
        case _:
            yield Mark(part.role, opens, part.digest, _shape(part))


def _shape(part: Part) -> tuple[object, ...]:
    around = (part.before, part.after, part.cut, part.indented)
    return around if any(around) else ()  # as a message of the history stands


def _said(ref: TurnRef | None, since: int | None) -> Iterator[Mark]:
    """Give the messages of a turn; one that was put in another's place since is not known."""
    if ref is None:
        yield Mark(None, opens=True, digest=None)
        return
    for said in messages_in(ref):
        known = since is None or said.sequence <= since
        role: Place = "user" if said is ref.text else "assistant"
        yield Mark(role, opens=True, digest=said.digest if known else None)
