"""The common prefix of a prompt and the previous one, which a provider's cache can reuse.

The comparison needs two manifests and the turns between them; it reads no text. A prompt is split
into the texts of its messages, tools first, as providers order them. History messages are always
rendered the same way, so a turn at the same position is the same text, and two runs that begin with
the same turns are compared by turn number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Final, NamedTuple

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

_PAIR: Final = ("asked", "answered")
"""The messages of a merged repeated question."""


class Mark(NamedTuple):
    """One text of a prompt, as far as it can be identified without reading it."""

    role: Place | None
    opens: bool
    """Whether it is the first text of a message."""
    digest: Digest | None
    """None if the digest is no longer known; such a text equals no other."""
    shape: tuple[object, ...] = ()
    """The delimiters around it and the changes that were made to it."""


class Reached(NamedTuple):
    """How far two prompts were compared part by part."""

    place: int
    """The first part that differs, or may differ."""
    turn: int
    """If that part is a run: its first turn that was not compared."""
    messages: int
    """Messages that begin before that part."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of a prompt in the order in which providers place them."""

    parts: tuple[Part, ...]
    turns: Turns
    """The turns that the session has settled by now."""
    since: int | None = None
    """Digests of texts replaced after this sequence are unknown; None for the newest prompt."""

    def marks(self, since: Reached) -> Iterator[tuple[int, Mark]]:
        """Yield the remaining texts, each with the index of its part."""
        for place in range(since.place, len(self.parts)):
            match self.parts[place].source:
                case FromTurns(condensed=None, first=first, last=last, work=work):
                    begins = max(first, since.turn) if place == since.place else first
                    for turn in range(begins, last + 1):
                        for mark in _said(self.turns.get(turn), self.since, work=work):
                            yield place, mark
                case FromTurns(condensed="repeats-1"):
                    yield from ((place, self.mark(place)) for _ in _PAIR)
                case FromTurns(first=turn):
                    for _ in _said(self.turns.get(turn), self.since):
                        yield place, self.mark(place)
                case _:
                    yield place, self.mark(place)

    def mark(self, place: int) -> Mark:
        """Return the one text of a part that is not a run."""
        part = self.parts[place]
        before = self.parts[place - 1].message if place else None
        opens = part.message is not None and part.message != before
        around = (part.before, part.after, part.excerpt, part.cut, part.indented)
        shape = around if any(around) else ()  # The shape of a history message
        return Mark(part.role, opens, _digest(part), shape)


def common_prefix(earlier: Earlier, parts: Iterable[Part], turns: Turns) -> Prefix:
    """Compare a prompt with an earlier one; `turns` are those the session has settled by now."""
    before = Prompt(_laid_out(earlier.manifest.parts), turns, earlier.manifest.sequence)
    now = Prompt(_laid_out(parts), turns)
    reached = _reached(before, now)
    messages = reached.messages
    for was, stands in zip_longest(before.marks(reached), now.marks(reached)):
        if was is None:
            break
        place, mark = was
        if stands is None or mark != stands[1] or mark.digest is None:
            stays = now.parts[stands[0]].layer if stands else None
            return Prefix(
                call=earlier.call,
                messages=messages,
                tokens=_tokens(before.parts[:place]),
                ended_by=_ending(before.parts[place].layer, stays, now.parts),
            )
        messages += mark.opens
    return Prefix(call=earlier.call, messages=messages, tokens=_tokens(before.parts))


def _laid_out(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted([part for part in parts if part.kept], key=_tools_first))


def _tools_first(part: Part) -> bool:
    return part.role != "tools"


def _tokens(parts: Iterable[Part]) -> int:
    return sum([part.tokens for part in parts])


def _ending(was: str, stands: str | None, now: Iterable[Part]) -> str:
    """Name the layer that disappeared, or else the layer that took its position."""
    stays = any(part.layer == was for part in now)
    return stands if stays and stands else was


def _reached(before: Prompt, now: Prompt) -> Reached:
    """Compare part by part, and runs turn by turn without splitting them."""
    messages = 0
    for place, (was, stands) in enumerate(zip(before.parts, now.parts, strict=False)):
        then, run = _run(was), _run(stands)
        if (then and then.condensed) or (run and run.condensed):
            return Reached(place, 0, messages)
        if then is None and run is None:
            mark = before.mark(place)
            if mark.digest is None or mark != now.mark(place):
                return Reached(place, 0, messages)
            messages += mark.opens
        elif then and run and (then.first, then.work) == (run.first, run.work):
            turns = range(run.first, min(then.last, run.last) + 1)
            turn, said = _known(turns, before.turns, before.since or 0)
            messages += said
            if not then.last == run.last == turn - 1:
                return Reached(place, turn, messages)
        else:
            return Reached(place, 0, messages)
    return Reached(min(len(before.parts), len(now.parts)), 0, messages)


def _run(part: Part) -> FromTurns | None:
    return part.source if type(part.source) is FromTurns else None


def _known(run: range, turns: Turns, since: int) -> tuple[int, int]:
    """Return the first turn of a run that changed after `since`, and the messages before it."""
    messages = 0
    for turn in run:
        ref = turns.get(turn)
        said = messages_in(ref) if ref else ()
        if not said or said[-1].sequence > since:
            return turn, messages
        messages += len(said)
    return run.stop, messages


def _digest(part: Part) -> Digest | None:
    match part.source:
        case _ if part.digest:
            return part.digest
        case FromBlueprint(text=text):
            return _written(text)
        case FromBlob(digest=digest) | FromSegment(digest=digest):
            return digest
        case _:
            return None


_written: Final = lru_cache(1_024)(digest_of)
"""Cached, since the texts of blueprints are part of every call."""


def _said(ref: TurnRef | None, since: int | None, *, work: bool = False) -> Iterator[Mark]:
    """Yield the messages of a turn; the digest of one replaced after `since` is unknown."""
    if ref is None:
        yield Mark(None, opens=True, digest=None)
        return
    for said in messages_in(ref):
        known = since is None or said.sequence <= since
        role: Place = "user" if said is ref.text else "assistant"
        shape = (ref.work.digest,) if work and ref.work and said is ref.reply else ()
        yield Mark(role, opens=True, digest=said.digest if known else None, shape=shape)
