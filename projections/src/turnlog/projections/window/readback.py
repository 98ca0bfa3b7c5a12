"""Rebuild a prompt from its manifest, without assembling anything.

This is the second, independent way to the exact prompt. It knows no budget, no conditions and no
ladder, only which part is where and where its text is stored. The result must have the recorded
digest. The independence is on purpose.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import assert_never

from pydantic import JsonValue

from turnlog.events.content import Digest, Plain, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Manifest,
    Part,
)
from turnlog.events.reference import TurnResolved
from turnlog.projections.blueprint.slots import spelt
from turnlog.projections.history import Turn, history
from turnlog.projections.window.condensing import retold
from turnlog.projections.window.request import ChatMessage
from turnlog.projections.window.resolved import readable_results, resolved_text
from turnlog.projections.window.spoken import run_digest


def read_back(
    manifest: Manifest, events: Sequence[Recorded], blobs: Mapping[Digest, str]
) -> tuple[ChatMessage, ...]:
    """Rebuild the messages of a call from the events up to it and the blobs it names.

    The events are in order and may have gaps, as long as those that the manifest refers to are
    there. Raises `Corrupt` naming the first part whose text does not match its recorded digest.
    """
    known = [event for event in events if event.sequence <= manifest.sequence]
    return read_parts(manifest, known, {turn.turn: turn for turn in history(known)}, blobs)


def read_parts(
    manifest: Manifest,
    known: Sequence[Recorded],
    turns: Mapping[int, Turn],
    blobs: Mapping[Digest, str],
) -> tuple[ChatMessage, ...]:
    """Rebuild the messages where the events up to the call and their turns are loaded already."""
    messages: list[ChatMessage] = []
    for part in manifest.parts:
        if part.message is None or part.source is None:
            continue
        if isinstance(part.source, FromTurns):
            messages += _run(part, part.source, turns)
        else:
            text = _stands(part, _text(part.source, known, blobs))
            _join(messages, part, part.before + text + part.after)
    return tuple(messages)


def tools_of(manifest: Manifest, blobs: Mapping[Digest, str]) -> tuple[dict[str, JsonValue], ...]:
    """Rebuild the tools that were offered with the messages."""
    offered = (part for part in manifest.parts if part.role == "tools")
    read: list[JsonValue] = [json.loads(_tool(part, blobs)) for part in offered]
    return tuple(tool for tool in read if isinstance(tool, dict))


def _tool(part: Part, blobs: Mapping[Digest, str]) -> str:
    match part.source:
        case FromBlueprint() | FromBlob() as source:
            return _stands(part, _text(source, (), blobs))
        case _:
            raise Corrupt(f"part {part.layer}", "no tool comes from there")


def blobs_of(manifest: Manifest) -> tuple[Digest, ...]:
    """Return the digests of the blobs that rebuilding needs."""
    sources = (part.source for part in manifest.parts if part.kept)
    return tuple(each.digest for each in sources if isinstance(each, FromBlob | FromSegment))


def _join(messages: list[ChatMessage], part: Part, text: str) -> None:
    role, message = part.role, part.message
    if role is None or role == "tools" or message is None or message > len(messages):
        raise Corrupt(f"part {part.layer}", "it names no place among the messages")
    if message == len(messages):
        messages.append(ChatMessage(role, text))
    else:
        before = messages[message].content
        messages[message] = ChatMessage(role, before + text)


def _stands(part: Part, text: str) -> str:
    """Apply the recorded changes to a text; raises `Corrupt` if its digest does not match."""
    source = part.source
    if isinstance(source, FromBlob | FromSegment) and digest_of(text) != source.digest:
        raise _altered(part)
    text = text[part.excerpt.begin : part.excerpt.end] if part.excerpt else text
    left = text[: part.cut.to] if part.cut else text
    ends = (*part.indented, len(left))
    lines = [left[begin:end] for begin, end in pairwise((0, *ends))]
    stands = " ".join(lines)
    if part.digest and digest_of(stands) != part.digest:
        raise _altered(part)
    return stands


def _altered(part: Part) -> Corrupt:
    return Corrupt(f"part {part.layer}", "its text does not match the recorded digest")


def _text(
    source: FromBlob | FromSegment | FromEvent | FromBlueprint | FromResolved,
    events: Sequence[Recorded],
    blobs: Mapping[Digest, str],
) -> str:
    match source:
        case FromBlueprint(text=text):
            return text
        case FromBlob(digest=digest) | FromSegment(digest=digest):
            if digest not in blobs:
                raise Corrupt(f"blob {digest}", "it was not fetched")
            return blobs[digest]
        case FromEvent(sequence=sequence, field=field):
            return _from_event(events, sequence, field)
        case FromResolved(resolution=sequence, lines=lines, heading=heading):
            said = _event(events, sequence).event
            if not isinstance(said, TurnResolved):
                raise Corrupt(f"event {sequence}", "no resolver said anything in it")
            return resolved_text(heading, lines, said, readable_results(said.results))
        case _ as never:
            assert_never(never)


def _event(events: Sequence[Recorded], sequence: int) -> Recorded:
    at = bisect_left(events, sequence, key=lambda event: event.sequence)
    if at == len(events) or events[at].sequence != sequence:
        raise Corrupt(f"event {sequence}", "it is not among the events of the session")
    return events[at]


def _from_event(events: Sequence[Recorded], sequence: int, field: str) -> str:
    recorded = _event(events, sequence)
    said = getattr(recorded.event, field, None)
    if isinstance(said, Plain):
        return said.text
    value: JsonValue = recorded.envelope.data
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return spelt(value)


def _run(part: Part, source: FromTurns, turns: Mapping[int, Turn]) -> Iterator[ChatMessage]:
    numbers = range(source.first, source.last + 1)
    try:
        told = [turns[number] for number in numbers]
    except KeyError as missing:
        raise Corrupt(f"turn {missing}", "it is not in the session's history") from None
    run = [turn.worked if source.work else turn.spoken for turn in told]
    if source.condensed:
        run = [retold(source.condensed, source.again, run)]
    if run_digest(run) != part.digest:
        what = f"turns {source.first} to {source.last}"
        raise Corrupt(what, "their texts do not match the recorded digest")
    return chain.from_iterable(said.messages for said in run)
