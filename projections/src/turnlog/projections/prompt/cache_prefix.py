"""The common prefix of a prompt and the previous one, which a provider's cache can reuse.

The comparison needs two manifests and the turns between them; it reads no text. A prompt is split
into the texts of its messages, tools first, as providers order them. History messages are always
rendered the same way, so a turn at the same position is the same text, and two runs that begin with
the same turns are compared by turn number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from turnlog.events.content import Digest, compute_digest
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    CachePrefix,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PartRole,
    PromptPart,
    SegmentSource,
)
from turnlog.projections.prompt.assembly_inputs import EarlierCall
from turnlog.projections.prompt.history.memory_access import list_message_refs
from turnlog.projections.prompt.planned_media import split_omissions
from turnlog.projections.session.state import SettledTurnRef

SettledTurns = Mapping[int, SettledTurnRef]

_PAIR_MESSAGES: Final = ("asked", "answered")
"""The messages of a merged repeated question."""


class TextMark(NamedTuple):
    """One text of a prompt, as far as it can be identified without reading it."""

    role: PartRole | None
    starts_message: bool
    """Whether it is the first text of a message."""
    digest: Digest | None
    """None if the digest is no longer known; such a text equals no other."""
    shape: tuple[object, ...] = ()
    """The delimiters around it and the changes that were made to it."""


class ComparedPrefix(NamedTuple):
    """How far two prompts were compared part by part."""

    place: int
    """The first part that differs, or may differ."""
    turn: int
    """If that part is a run: its first turn that was not compared."""
    messages: int
    """Messages that begin before that part."""


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """The parts of a prompt in the order in which providers place them."""

    parts: tuple[PromptPart, ...]
    turns: SettledTurns
    """The turns that the session has settled by now."""
    since: int | None = None
    """Digests of texts replaced after this sequence are unknown; None for the newest prompt."""
    media: Mapping[int, tuple[PromptPart, ...]] = field(
        default_factory=dict[int, tuple[PromptPart, ...]]
    )
    """Pictures, recordings and files, and the reasoning before earlier replies, by the index of
    their message.
    """

    def iterate_marks(self, since: ComparedPrefix) -> Iterator[tuple[int, TextMark]]:
        """Yield the remaining texts, each with the index of its part."""
        for place in range(since.place, len(self.parts)):
            match self.parts[place].source:
                case HistorySource(condensed=None, first=first, last=last, work=work):
                    begins = max(first, since.turn) if place == since.place else first
                    index = since.messages if begins > first else self.parts[place].message
                    joint = self.parts[place].before if begins == first else ""
                    for turn in range(begins, last + 1):
                        for mark in _iterate_turn_marks(
                            self.turns.get(turn), self.since, work=work
                        ):
                            placed = self._add_media(mark, index or 0) if self.media else mark
                            yield place, _join_mark(placed, joint) if joint else placed
                            index = (index or 0) + mark.starts_message
                            joint = ""
                case HistorySource(condensed="repeats-1" | "repeats-2"):
                    yield from ((place, self.build_mark(place)) for _ in _PAIR_MESSAGES)
                case HistorySource(first=turn):
                    for _ in _iterate_turn_marks(self.turns.get(turn), self.since):
                        yield place, self.build_mark(place)
                case _:
                    yield place, self.build_mark(place)

    def build_mark(self, place: int) -> TextMark:
        """Return the one text of a part that is not a run."""
        part = self.parts[place]
        before = self.parts[place - 1].message if place else None
        opens = part.message is not None and part.message != before
        around = (part.before, part.after, part.excerpt, part.cut, part.indented)
        shape = around if any(around) else ()  # The shape of a history message
        mark = TextMark(part.role, opens, _find_digest(part), shape)
        has_media = self.media and part.message is not None
        return self._add_media(mark, part.message or 0) if has_media else mark

    def _add_media(self, mark: TextMark, index: int) -> TextMark:
        """Return the mark of a text with the media of its message, if it is the first one there."""
        media = self.media.get(index) if mark.starts_message else None
        return mark._replace(shape=(*mark.shape, *_identify_media(media))) if media else mark

    def sum_tokens(self, place: int, messages: int) -> int:
        """Return the tokens of the first parts, and of the media of the first messages."""
        media = (each for index in self.media if index < messages for each in self.media[index])
        return _sum_tokens(self.parts[:place]) + _sum_tokens(media)


def compute_common_prefix(
    earlier: EarlierCall, parts: Iterable[PromptPart], turns: SettledTurns
) -> CachePrefix:
    """Compare a prompt with an earlier one; `turns` are those the session has settled by now."""
    before = _lay_out(earlier.manifest.parts, turns, earlier.manifest.sequence)
    now = _lay_out(parts, turns)
    reached = _compare_parts(before, now)
    messages = reached.messages
    for previous, current in zip_longest(before.iterate_marks(reached), now.iterate_marks(reached)):
        if previous is None:
            break
        place, mark = previous
        if current is None or mark != current[1] or mark.digest is None:
            current_layer = now.parts[current[0]].layer if current else None
            return CachePrefix(
                call=earlier.call,
                messages=messages,
                tokens=before.sum_tokens(place, messages),
                ended_by=_find_ending_layer(before.parts[place].layer, current_layer, now.parts),
            )
        messages += mark.starts_message
    tokens = before.sum_tokens(len(before.parts), messages)
    return CachePrefix(call=earlier.call, messages=messages, tokens=tokens)


def _lay_out(
    parts: Iterable[PromptPart], turns: SettledTurns, since: int | None = None
) -> PromptLayout:
    texts, media = list[PromptPart](), dict[int, tuple[PromptPart, ...]]()
    for part in chain.from_iterable(
        split_omissions(each) if each.others else (each,) for each in parts
    ):
        if part.at is None and not part.is_reply_reasoning:
            texts.append(part)
        elif part.message is not None:
            media[part.message] = (*media.get(part.message, ()), part)
    return PromptLayout(_sort_parts(texts), turns, since, media)


def _identify_media(media: Iterable[PromptPart]) -> Iterator[tuple[object, ...]]:
    """Yield what identifies each; of those that are listed with others, no digest is known."""
    return ((part.at, part.digest or part.source, part.treatment) for part in media)


def _find_changed_media(before: PromptLayout, now: PromptLayout) -> int | None:
    """Return the first message whose media differ, or None."""
    changed = (
        index
        for index in before.media.keys() | now.media.keys()
        if [*_identify_media(before.media.get(index, ()))]
        != [*_identify_media(now.media.get(index, ()))]
    )
    return min(changed, default=None)


def _sort_parts(parts: Iterable[PromptPart]) -> tuple[PromptPart, ...]:
    return tuple(sorted([part for part in parts if part.is_included], key=_is_message_part))


def _is_message_part(part: PromptPart) -> bool:
    return part.role not in {"tools", "response_format"}


def _sum_tokens(parts: Iterable[PromptPart]) -> int:
    return sum([part.tokens for part in parts])


def _find_ending_layer(
    previous_layer: str, current_layer: str | None, now: Iterable[PromptPart]
) -> str:
    """Name the layer that disappeared, or else the layer that took its position."""
    is_kept = any(part.layer == previous_layer for part in now)
    return current_layer if is_kept and current_layer else previous_layer


def _compare_parts(before: PromptLayout, now: PromptLayout) -> ComparedPrefix:
    """Compare part by part, and runs turn by turn without splitting them."""
    messages, changed = 0, _find_changed_media(before, now)
    for place, (previous, current) in enumerate(zip(before.parts, now.parts, strict=False)):
        then, run = _get_run(previous), _get_run(current)
        if (then and then.condensed) or (run and run.condensed):
            return ComparedPrefix(place, 0, messages)
        if then is None and run is None:
            mark = before.build_mark(place)
            if mark.digest is None or mark != now.build_mark(place):
                return ComparedPrefix(place, 0, messages)
            messages += mark.starts_message
        elif then and run and _has_same_start(previous, current, then, run):
            turns = range(run.first, min(then.last, run.last) + 1)
            turn, message_count = _find_changed_turn(turns, before.turns, before.since or 0)
            message_count -= bool(message_count and current.before)
            if changed is not None and messages + message_count > changed:
                return ComparedPrefix(place, 0, messages)
            messages += message_count
            if not then.last == run.last == turn - 1:
                return ComparedPrefix(place, turn, messages)
        else:
            return ComparedPrefix(place, 0, messages)
    return ComparedPrefix(min(len(before.parts), len(now.parts)), 0, messages)


def _has_same_start(
    previous: PromptPart, current: PromptPart, then: HistorySource, run: HistorySource
) -> bool:
    """Return whether two runs begin with the same turn, joined to the same kind of text."""
    was, now = (previous.before, previous.role), (current.before, current.role)
    return was == now and (then.first, then.work) == (run.first, run.work)


def _get_run(part: PromptPart) -> HistorySource | None:
    return part.source if type(part.source) is HistorySource else None


def _find_changed_turn(run: range, turns: SettledTurns, since: int) -> tuple[int, int]:
    """Return the first turn of a run that changed after `since`, and the messages before it."""
    messages = 0
    for turn in run:
        ref = turns.get(turn)
        refs = list_message_refs(ref) if ref else ()
        # A replacement comes later than the messages of its turn, whichever of them it is of.
        if not refs or any(each.sequence > since for each in refs):
            return turn, messages
        messages += len(refs)
    return run.stop, messages


def _join_mark(mark: TextMark, joint: str) -> TextMark:
    """Return the mark of the first text of a run that joins the message before it."""
    return mark._replace(starts_message=False, shape=(*mark.shape, joint))


def _find_digest(part: PromptPart) -> Digest | None:
    match part.source:
        case _ if part.digest:
            return part.digest
        case BlueprintTextSource(text=text):
            return _digest_literal(text)
        case (
            BlobSource(digest=digest)
            | SegmentSource(digest=digest)
            | KnowledgeSource(digest=digest)
            | ParentInputSource(digest=digest)
        ):
            return digest
        case _:
            return None


_digest_literal: Final = lru_cache(1_024)(compute_digest)
"""Cached, since the texts of blueprints are part of every call."""


def _iterate_turn_marks(
    ref: SettledTurnRef | None, since: int | None, *, work: bool = False
) -> Iterator[TextMark]:
    """Yield the messages of a turn; the digest of one replaced after `since` is unknown."""
    if ref is None:
        yield TextMark(None, starts_message=True, digest=None)
        return
    for message_ref in list_message_refs(ref):
        known = since is None or message_ref.sequence <= since
        role: PartRole = ref.role if message_ref is ref.text else "assistant"
        shape = (ref.work.digest,) if work and ref.work and message_ref is ref.reply else ()
        yield TextMark(
            role, starts_message=True, digest=message_ref.digest if known else None, shape=shape
        )
