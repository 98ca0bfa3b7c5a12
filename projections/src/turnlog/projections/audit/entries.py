"""Manifest entries: a manifest split into items that can be matched with those of another manifest.

A layer is an entry, and so are a segment of a layer and each turn of a history run. An entry
identifies its text and its delimiters by digests and lengths; no text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnlog.events.content import digest_of
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromSegment,
    FromTurns,
    Part,
    StepTaken,
)
from turnlog.projections.audit.fates import Fate
from turnlog.projections.audit.grounds import left_out_as_one
from turnlog.projections.audit.sides import Side
from turnlog.projections.window.overflow import WHOLE, bounds_of

Key = tuple[str, ...]
Unit = tuple[object, ...]
"""One message of a prompt: its role, the identity of its text, its delimiters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item that is included in a prompt or was left out of it."""

    key: Key
    part: Part
    """The part itself, or the history run that the turn is in."""
    texts: tuple[Unit, ...]
    """Its messages; empty if it is left out."""
    characters: int
    """Length as included, with delimiters."""
    whole: int | None
    """Length before anything was cut; None if unknown."""
    turn: int | None = None
    step: StepTaken | None = None
    """The ladder step that shortened it, left it out or added it."""

    @property
    def stands(self) -> bool:
        """Whether it is in the prompt."""
        return bool(self.texts)

    @property
    def wanted(self) -> bool:
        """Whether it would be in the prompt if there were no budget."""
        return (self.stands and self.part.rule != "replace") or (
            self.step is not None and not self.stands
        )

    @property
    def origin(self) -> object:
        """Identity of the text before any cut."""
        source = self.part.source
        return source.digest if isinstance(source, FromBlob | FromSegment) else source


Entries = Mapping[Key, Entry]


def entries(side: Side, other: Side) -> Entries:
    """Return the entries of a call in the order of its parts; repeated keys are numbered.

    History that neither call comes near is left out: it may be thousands of turns.
    """
    seen: Counter[Key] = Counter()
    found: dict[Key, Entry] = {}
    for entry in _entries(side, _near(other)):
        key = (*entry.key, str(seen[entry.key]))
        seen[entry.key] += 1
        found[key] = Entry(
            key, entry.part, entry.texts, entry.characters, entry.whole, entry.turn, entry.step
        )
    return found


def _near(side: Side) -> frozenset[int]:
    """Return the turns that a call includes or left out individually."""
    runs = (each for each in side.manifest.parts if not left_out_as_one(each))
    sources = (each.source for each in runs if isinstance(each.source, FromTurns))
    return frozenset(turn for run in sources for turn in range(run.first, run.last + 1))


def _entries(side: Side, near: frozenset[int]) -> Iterator[Entry]:
    for part in side.manifest.parts:
        if isinstance(part.source, FromTurns):
            far = left_out_as_one(part)
            for turn in range(part.source.first, part.source.last + 1):
                if not far or turn in near:
                    yield _turn(part, part.source, turn, side)
        else:
            yield _layer(part, side)


def _turn(part: Part, run: FromTurns, turn: int, side: Side) -> Entry:
    step = _step(part, run.view, side)
    # The length of a turn matters only if it is included or was left out by a ladder step.
    fate = side.fates.get(turn) if part.kept or step else None
    messages = _messages(fate) if fate and part.kept else ()
    if run.condensed and part.kept:
        # A condensed run is one text; the words of a single turn cannot be told apart in it.
        messages = ((part.role, part.digest),)
    length = sum(said.characters for said in fate.said) if fate else 0
    stood = length if messages else 0
    return Entry(("turn", str(turn)), part, messages, stood, length, turn, step)


def _messages(fate: Fate) -> tuple[Unit, ...]:
    text = fate.text
    return tuple(("user" if said is text else "assistant", said.digest) for said in fate.said)


def _layer(part: Part, side: Side) -> Entry:
    texts: tuple[Unit, ...] = ((part.role, *_said(part)),) if part.kept else ()
    around = len(part.before) + len(part.after)
    whole = (part.cut.of if part.cut else part.characters - around) if part.kept else None
    step = _step(part, part.layer, side)
    return Entry(part_key(part), part, texts, part.characters, whole, step=step)


def part_key(part: Part) -> Key:
    """Return what identifies a part that is no history run; several parts may share a key."""
    if part.role == "tools":
        return ("tool", part.layer)
    if isinstance(part.source, FromSegment):
        return ("segment", part.layer, part.item or "", str(part.source.segment))
    return ("layer", part.layer)


def _said(part: Part) -> Unit:
    """Return what identifies a text: its digest and, if the text was cut, what remains of it."""
    match part.source:
        case FromBlob(digest=digest) | FromSegment(digest=digest):
            said = digest
        case FromBlueprint(text=text):
            said = digest_of(text)
        case _:
            return (part.digest,)
    done = (part.excerpt, part.cut, part.indented)
    return (said, *done) if any(done) else (said,)


def _step(part: Part, target: str, side: Side) -> StepTaken | None:
    """Return the ladder step that a part's rule names; a step on the whole prompt comes first."""
    word = (part.rule or "").partition(" ")[0]
    taken = [each for each in side.manifest.steps if (each.step, each.on) == (word, target)]
    return min(taken, key=lambda each: bounds_of(each) != WHOLE, default=None)
