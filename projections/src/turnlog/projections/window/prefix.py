"""Where a prompt stops being what the call before it said: what a provider's cache can reuse.

Two manifests and the turns between them are enough; no text is read. A prompt is taken apart into
the texts its messages are made of, tools first, as providers lay them out. A message of the history
is never rendered in another way later, so a turn whose texts stand where they stood is the same;
and the turns that two runs begin with are not taken apart at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

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


class Mark(NamedTuple):
    """One text of a prompt, as far as it can be told from others without reading it."""

    role: Place | None
    opens: int
    """How many messages begin with it."""
    digest: Digest | None
    """None where it is no longer known, so that it is like no other."""
    shape: tuple[object, ...] = ()
    """What stands around it, and what was done to it."""


class Text(NamedTuple):
    """A mark, and the place of its part in the prompt."""

    place: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of a prompt as providers lay them out."""

    parts: tuple[Part, ...]
    turns: Turns
    """Those the session has settled by now."""
    since: int | None = None
    """What was put in another's place after this sequence is not known; none for the newest."""

    def texts(self, alike: Mapping[int, Alike]) -> Iterator[Text]:
        """Take it apart; what is known to be alike is one text."""
        message: int | None = None
        for place, part in enumerate(self.parts):
            opens = part.message is not None and part.message != message
            message = part.message
            for mark in self._marks(part, alike.get(place), opens=opens):
                yield Text(place, mark)

    def _marks(self, part: Part, alike: Alike | None, *, opens: bool) -> Iterator[Mark]:
        match part.source:
            case FromTurns(first=first, last=last):
                if alike:
                    yield Mark(None, alike.messages, f"turns to {alike.last}")
                for turn in range(alike.last + 1 if alike else first, last + 1):
                    yield from _said(self.turns.get(turn), self.since)
            case FromBlob(digest=digest) | FromSegment(digest=digest) if part.digest is None:
                yield Mark(part.role, opens, digest, _shape(part))
            case FromBlueprint(text=text):
                yield Mark(part.role, opens, digest_of(text), _shape(part))
            case _:
                yield Mark(part.role, opens, part.digest, _shape(part))


class Alike(NamedTuple):
    """What two runs begin with."""

    last: int
    """Its last turn."""
    messages: int


def common_prefix(earlier: Earlier, parts: Iterable[Part], turns: Turns) -> Prefix:
    """Compare a prompt with an earlier one; `turns` are those the session has settled by now."""
    before = Prompt(_laid_out(earlier.manifest.parts), turns, earlier.manifest.sequence)
    now = Prompt(_laid_out(parts), turns)
    alike = dict(_alike(before, now))
    messages = 0
    for was, stands in zip_longest(before.texts(alike), now.texts(alike)):
        if was is None:
            break
        if stands is None or was.mark != stands.mark or was.mark.digest is None:
            place = stands.place if stands else None
            ended_by = _ending(before.parts, was.place, now.parts, place)
            return Prefix(
                call=earlier.call,
                messages=messages,
                tokens=_tokens(before.parts[: was.place]),
                ended_by=ended_by,
            )
        messages += was.mark.opens
    return Prefix(call=earlier.call, messages=messages, tokens=_tokens(before.parts))


def _laid_out(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted((part for part in parts if part.kept), key=_tools_first))


def _tools_first(part: Part) -> bool:
    return part.role != "tools"


def _tokens(parts: Iterable[Part]) -> int:
    return sum(part.tokens for part in parts)


def _ending(before: tuple[Part, ...], gone: int, now: tuple[Part, ...], place: int | None) -> str:
    """Name the layer that went away, or else the one that stands in its place."""
    was = before[gone].layer
    stays = was in {part.layer for part in now}
    return now[place].layer if stays and place is not None else was


def _alike(before: Prompt, now: Prompt) -> Iterator[tuple[int, Alike]]:
    """Give what runs begin with that stand at the same place, and behind as many texts."""
    for place, (was, stands) in enumerate(zip(before.parts, now.parts, strict=False)):
        match was.source, stands.source:
            case FromTurns() as then, FromTurns() as run if then.first == run.first:
                last = min(then.last, run.last)
                alike = _known(range(run.first, last + 1), before.turns, before.since or 0)
                if alike.messages:
                    yield place, alike
                if not then.last == run.last == alike.last:
                    return
            case (FromTurns(), _) | (_, FromTurns()):
                return
            case _:
                pass


def _known(run: range, turns: Turns, since: int) -> Alike:
    """Give the turns of a run up to the first that was changed since."""
    messages = 0
    for turn in run:
        said = messages_in(turns[turn]) if turn in turns else ()
        if not said or said[-1].sequence > since or said[0].sequence > since:
            return Alike(turn - 1, messages)
        messages += len(said)
    return Alike(run.stop - 1, messages)


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
