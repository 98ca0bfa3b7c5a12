"""Reading a prompt back by following its manifest's references, without assembling anything.

This is the second, independent way to the exact prompt: no budget, no conditions, no ladder,
only "this part stands here, and its text is there". What it gives must have the very digest
that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    FromTurns,
    Manifest,
    Part,
)
from turnlog.events.reference import TurnResolved
from turnlog.projections.blueprint.slots import spelt
from turnlog.projections.history import Turn, history
from turnlog.projections.window.history import run_digest
from turnlog.projections.window.request import ChatMessage
from turnlog.projections.window.resolved import readable_results, resolved_text


def read_back(
    manifest: Manifest, events: Sequence[Recorded], blobs: Mapping[Digest, str]
) -> tuple[ChatMessage, ...]:
    """Rebuild the messages of a call from the events up to it and the blobs it names.

    Raises `Corrupt` naming the first part whose text does not match its recorded digest.
    """
    known = [event for event in events if event.sequence <= manifest.sequence]
    return read_parts(manifest, known, {turn.turn: turn for turn in history(known)}, blobs)


def read_parts(
    manifest: Manifest,
    known: Sequence[Recorded],
    turns: Mapping[int, Turn],
    blobs: Mapping[Digest, str],
) -> tuple[ChatMessage, ...]:
    """Do the same where the events up to the call and their turns are at hand already."""
    messages: list[ChatMessage] = []
    for part in manifest.parts:
        if part.message is None or part.source is None:
            continue
        if isinstance(part.source, FromTurns):
            messages += _run(part, part.source, turns)
        else:
            text = _checked(part, _text(part.source, known, blobs))
            _join(messages, part, text, manifest.between)
    return tuple(messages)


def tools_of(manifest: Manifest) -> tuple[dict[str, JsonValue], ...]:
    """Read back the tools that were offered beside the messages."""
    offered = [part.source for part in manifest.parts if part.role == "tools"]
    read: list[JsonValue] = [
        json.loads(source.text) for source in offered if isinstance(source, FromBlueprint)
    ]
    return tuple(tool for tool in read if isinstance(tool, dict))


def blobs_of(manifest: Manifest) -> tuple[Digest, ...]:
    """Name the blobs that reading back will ask for."""
    sources = (part.source for part in manifest.parts if part.message is not None)
    return tuple(source.digest for source in sources if isinstance(source, FromBlob))


def _join(messages: list[ChatMessage], part: Part, text: str, between: str) -> None:
    role, message = part.role, part.message
    if role is None or role == "tools" or message is None or message > len(messages):
        raise Corrupt(f"part {part.layer}", "it names no place among the messages")
    if message == len(messages):
        messages.append(ChatMessage(role, text))
    else:
        before = messages[message].content
        messages[message] = ChatMessage(role, before + between + text)


def _checked(part: Part, text: str) -> str:
    recorded = part.source.digest if isinstance(part.source, FromBlob) else part.digest
    if recorded and digest_of(text) != recorded:
        raise Corrupt(f"part {part.layer}", "its text does not match the recorded digest")
    return text


def _text(
    source: FromBlob | FromEvent | FromBlueprint | FromResolved,
    events: Sequence[Recorded],
    blobs: Mapping[Digest, str],
) -> str:
    match source:
        case FromBlueprint(text=text):
            return text
        case FromBlob(digest=digest):
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
    first = events[0].sequence if events else 1
    at = sequence - first
    if not 0 <= at < len(events) or events[at].sequence != sequence:
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


def _run(part: Part, source: FromTurns, turns: Mapping[int, Turn]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for number in range(source.first, source.last + 1):
        turn = turns.get(number)
        if turn is None:
            raise Corrupt(f"turn {number}", "it is not in the session's history")
        if isinstance(turn.text, Plain) and turn.text.text:
            messages.append(ChatMessage("user", turn.text.text))
        if isinstance(turn.reply, Plain) and turn.reply.text:
            messages.append(ChatMessage("assistant", turn.reply.text))
    if run_digest(messages) != part.digest:
        what = f"turns {source.first} to {source.last}"
        raise Corrupt(what, "their texts do not match the recorded digest")
    return messages
