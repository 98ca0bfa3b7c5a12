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

from tests.replay.bundle_copies import BundleCopy, list_context_sequences
from tests.replay.golden_logs import get_version_folder
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.record.prompt_readback import read_prompt, read_tools
from turnlog.projections.prompt.chat_request import ChatRequest

GAME = "game"

TUTOR = "drawing"
"""The two sessions that are tampered with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TamperingCase:
    """One way to tamper with a record."""

    apply_to: Callable[[BundleCopy], None]
    session: str
    """The session whose record is then bad."""
    event: int
    """The sequence of its first bad event."""
    bundle_event: int | None = None
    """The same in a bundle, where it differs."""
    is_consistent: bool = False
    """Whether the chain was rewritten to fit, so that only a checkpoint or assembly reports it."""


def change_user_text(event: dict[str, Any]) -> None:
    """Change the text of a user."""
    event["data"]["text"]["text"] = "I" + event["data"]["text"]["text"][1:].upper()


def change_event_byte(copy: BundleCopy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b"Labas", b"Lapas")


def insert_null_byte(copy: BundleCopy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2][:40] + b"\x00" + lines[2][41:]


def insert_invalid_byte(copy: BundleCopy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"subject":"', b'"subject":"\xff')


def insert_surrogate(copy: BundleCopy) -> None:
    """Put a lone surrogate, which UTF-8 cannot encode, into the session name."""
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"subject":"', b'"subject":"\\ud800')


def insert_long_number(copy: BundleCopy) -> None:
    lines = copy.sessions[TUTOR]
    lines[2] = lines[2].replace(b'"sequence":3', b'"sequence":' + b"3" * 5_000)


def change_blob_byte(copy: BundleCopy) -> None:
    digest = find_safety_blob(copy)
    copy.blobs[digest] = copy.blobs[digest][:-1] + b"?"


def remove_blob(copy: BundleCopy) -> None:
    del copy.blobs[find_safety_blob(copy)]


def find_safety_blob(copy: BundleCopy) -> str:
    """Return the digest of a layer of the tutor's first prompt."""
    layers = json.loads(copy.sessions[TUTOR][4])["data"]["layers"]
    return str(layers["safety"]["digest"])


def drop_event(copy: BundleCopy) -> None:
    del copy.sessions[TUTOR][5]


def swap_events(copy: BundleCopy) -> None:
    lines = copy.sessions[TUTOR]
    lines[5], lines[6] = lines[6], lines[5]


def insert_event(copy: BundleCopy) -> None:
    copy.sessions[TUTOR].insert(6, copy.sessions[TUTOR][5])


def cut_tail(copy: BundleCopy) -> None:
    del copy.sessions[TUTOR][-3:]


def merge_histories(copy: BundleCopy) -> None:
    """Continue from one event with another history of the same session."""
    other = copy.copy_bundle()
    other.change_event(TUTOR, 3, change_user_text)
    other.rewrite_chain(TUTOR)
    copy.sessions[TUTOR][10:] = other.sessions[TUTOR][10:]


def swap_session_events(copy: BundleCopy) -> None:
    mine, other = copy.sessions[TUTOR], copy.sessions[GAME]
    mine[4], other[4] = other[4], mine[4]


def edit_manifest(copy: BundleCopy) -> None:
    """Remove a layer from a manifest and set the digest of the remaining prompt."""
    fixed = list_context_sequences(copy, TUTOR)[0]
    copy.change_event(TUTOR, fixed, remove_safety_part)
    events, texts = copy.read_events(TUTOR), copy.read_texts()
    call = events[fixed - 1].event
    assert isinstance(call, ContextAssembled)
    messages = read_prompt(call.manifest, events, texts)
    left = ChatRequest(call.model, messages, read_tools(call.manifest, texts), call.parameters)
    copy.change_event(
        TUTOR, fixed, lambda event: event["data"]["manifest"].update(digest=left.digest)
    )


def remove_safety_part(event: dict[str, Any]) -> None:
    manifest = event["data"]["manifest"]
    kept = [part for part in manifest["parts"] if part["layer"] != "safety"]
    assert len(kept) < len(manifest["parts"])
    manifest["parts"] = kept


def rewrite_everything(copy: BundleCopy) -> None:
    """Remove the layer, then rewrite the whole chain and the bundle list."""
    edit_manifest(copy)
    copy.rewrite_chain(TUTOR)
    copy.rewrite_manifest()


def cut_tail_and_manifest(copy: BundleCopy) -> None:
    cut_tail(copy)
    copy.rewrite_manifest()


LAST = len(BundleCopy.read_bundle(get_version_folder()).sessions[TUTOR])
"""The sequence of the tutor's last event."""

TAMPERINGS = {
    "a byte of an event": TamperingCase(apply_to=change_event_byte, session=TUTOR, event=3),
    "a byte that makes an event unreadable": TamperingCase(
        apply_to=insert_null_byte, session=TUTOR, event=3
    ),
    "a name that is no text": TamperingCase(apply_to=insert_invalid_byte, session=TUTOR, event=3),
    "a name with half a character": TamperingCase(
        apply_to=insert_surrogate, session=TUTOR, event=3
    ),
    "a number without end": TamperingCase(apply_to=insert_long_number, session=TUTOR, event=3),
    "a byte of a blob": TamperingCase(
        apply_to=change_blob_byte, session=TUTOR, event=5, bundle_event=6
    ),
    "a blob gone": TamperingCase(apply_to=remove_blob, session=TUTOR, event=5, bundle_event=6),
    "an event dropped": TamperingCase(apply_to=drop_event, session=TUTOR, event=6),
    "events swapped": TamperingCase(apply_to=swap_events, session=TUTOR, event=6),
    "an event inserted": TamperingCase(apply_to=insert_event, session=TUTOR, event=6),
    "the tail cut": TamperingCase(apply_to=cut_tail, session=TUTOR, event=LAST),
    "two logs spliced": TamperingCase(apply_to=merge_histories, session=TUTOR, event=10),
    "events of two sessions exchanged": TamperingCase(
        apply_to=swap_session_events, session=TUTOR, event=5
    ),
    "a manifest edited": TamperingCase(apply_to=edit_manifest, session=TUTOR, event=6),
    "everything written anew": TamperingCase(
        apply_to=rewrite_everything, session=TUTOR, event=6, bundle_event=LAST, is_consistent=True
    ),
    "the tail cut, and the list with it": TamperingCase(
        apply_to=cut_tail_and_manifest, session=TUTOR, event=LAST, is_consistent=True
    ),
}
