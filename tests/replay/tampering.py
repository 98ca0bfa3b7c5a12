"""Ways to tamper with a record, and the event at which verification must report each.

Each is applied to a copy of the golden log, which is then verified as a bundle and as a log. An
attacker who can rewrite everything consistently is detected only by a checkpoint that someone else
keeps, or by assembling the prompts again; `is_consistent` marks those cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.replay.copies import Copy, calls
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.readback import read_prompt, read_tools

GAME = "game"
TUTOR = "drawing"
"""The two sessions that are tampered with."""


@dataclass(frozen=True, slots=True)
class Tampering:
    """One way to tamper with a record."""

    does: Callable[[Copy], None]
    session: str
    """The session whose record is then bad."""
    event: int
    """The sequence of its first bad event."""
    stranger: int | None = None
    """The same in a bundle, where it differs."""
    anew: bool = False
    """Whether the chain was rewritten to fit, so that only a checkpoint or assembly reports it."""


def said(event: dict[str, Any]) -> None:
    """Change the text of a user."""
    event["data"]["text"]["text"] = "I" + event["data"]["text"]["text"][1:].upper()


def byte_in_an_event(copy: Copy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b"Labas", b"Lapas")


def byte_in_a_name(copy: Copy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2][:40] + b"\x00" + lines[2][41:]


def no_text(copy: Copy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"subject":"', b'"subject":"\xff')


def half_a_character(copy: Copy) -> None:
    """Put a lone surrogate, which JSON can escape and UTF-8 cannot encode, into the session name."""
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"subject":"', b'"subject":"\\ud800')


def endless_number(copy: Copy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"sequence":3', b'"sequence":' + b"3" * 5_000)


def byte_in_a_blob(copy: Copy) -> None:
    digest = first_blob(copy)
    copy.blobs[digest] = copy.blobs[digest][:-1] + b"?"


def blob_gone(copy: Copy) -> None:
    del copy.blobs[first_blob(copy)]


def first_blob(copy: Copy) -> str:
    """Return the digest of a layer of the tutor's first prompt."""
    layers = json.loads(copy.sessions[TUTOR][4])["data"]["layers"]
    return str(layers["safety"]["digest"])


def event_dropped(copy: Copy) -> None:
    del copy.sessions[TUTOR][5]


def events_swapped(copy: Copy) -> None:
    lines = copy.sessions[TUTOR]
    lines[5], lines[6] = lines[6], lines[5]


def event_inserted(copy: Copy) -> None:
    copy.sessions[TUTOR].insert(6, copy.sessions[TUTOR][5])


def tail_cut(copy: Copy) -> None:
    del copy.sessions[TUTOR][-3:]


def logs_spliced(copy: Copy) -> None:
    """Continue from one event with another history of the same session."""
    other = copy.copy()
    other.change(TUTOR, 3, said)
    other.rechained(TUTOR)
    copy.sessions[TUTOR][10:] = other.sessions[TUTOR][10:]


def sessions_exchanged(copy: Copy) -> None:
    mine, other = copy.sessions[TUTOR], copy.sessions[GAME]
    mine[4], other[4] = other[4], mine[4]


def manifest_edited(copy: Copy) -> None:
    """Remove a layer from a manifest and set the digest of the remaining prompt."""
    fixed = calls(copy, TUTOR)[0]
    copy.change(TUTOR, fixed, without_safety)
    events, texts = copy.events(TUTOR), copy.texts()
    call = events[fixed - 1].event
    assert isinstance(call, ContextAssembled)
    messages = read_prompt(call.manifest, events, texts)
    left = ChatRequest(call.model, messages, read_tools(call.manifest, texts), call.parameters)
    copy.change(TUTOR, fixed, lambda event: event["data"]["manifest"].update(digest=left.digest))


def without_safety(event: dict[str, Any]) -> None:
    manifest = event["data"]["manifest"]
    kept = [part for part in manifest["parts"] if part["layer"] != "safety"]
    assert len(kept) < len(manifest["parts"])
    manifest["parts"] = kept


def everything_anew(copy: Copy) -> None:
    """Remove the layer, then rewrite the whole chain and the bundle list."""
    manifest_edited(copy)
    copy.rechained(TUTOR)
    copy.listed_anew()


def tail_cut_anew(copy: Copy) -> None:
    tail_cut(copy)
    copy.listed_anew()


TAMPERINGS = {
    "a byte of an event": Tampering(byte_in_an_event, TUTOR, 3),
    "a byte that makes an event unreadable": Tampering(byte_in_a_name, TUTOR, 3),
    "a name that is no text": Tampering(no_text, TUTOR, 3),
    "a name with half a character": Tampering(half_a_character, TUTOR, 3),
    "a number without end": Tampering(endless_number, TUTOR, 3),
    "a byte of a blob": Tampering(byte_in_a_blob, TUTOR, 5, stranger=6),
    "a blob gone": Tampering(blob_gone, TUTOR, 5, stranger=6),
    "an event dropped": Tampering(event_dropped, TUTOR, 6),
    "events swapped": Tampering(events_swapped, TUTOR, 6),
    "an event inserted": Tampering(event_inserted, TUTOR, 6),
    "the tail cut": Tampering(tail_cut, TUTOR, 37),
    "two logs spliced": Tampering(logs_spliced, TUTOR, 10),
    "events of two sessions exchanged": Tampering(sessions_exchanged, TUTOR, 5),
    "a manifest edited": Tampering(manifest_edited, TUTOR, 6),
    "everything written anew": Tampering(everything_anew, TUTOR, 6, stranger=37, anew=True),
    "the tail cut, and the list with it": Tampering(tail_cut_anew, TUTOR, 37, anew=True),
}
