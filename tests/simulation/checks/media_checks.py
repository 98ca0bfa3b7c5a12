"""Checks of pictures, recordings and files: what an event names is stored, whole and as it was.

The stored chunks are read from the simulated server as they are, without the store of the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Final

from tests.faults.clients.client_history import CommandTry
from tests.simulation.network.simulated_stream import SimulatedMessage, SimulatedStream
from tests.simulation.processes.simulated_loop import START_TIME
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.store.media_chunks import ChunkList
from turnlog.events.subjects import build_blob_subject, build_media_subject

MISSING_MEDIA: Final = "unknown-blob"
"""The code of the refusal of a turn that names what is not stored."""


def list_named_parts(events: Sequence[RecordedEvent]) -> list[MediaPart]:
    """Return what the events of a session name, as often as they do."""
    return [part for each in events for part in _read_parts(each)]


def find_lost_media(
    tenant: str, events: Sequence[RecordedEvent], stored: SimulatedStream
) -> Iterator[str]:
    """Return what events name and nobody can read back, or reads other bytes for."""
    for recorded in events:
        for part in _read_parts(recorded):
            data = _read_media(tenant, part.digest, stored)
            if data is None:
                yield f"event {recorded.sequence} names {part.digest}, which is not whole"
            elif (f"sha256:{sha256(data).hexdigest()}", len(data)) != (part.digest, part.size):
                yield f"event {recorded.sequence} names {part.digest}, which are other bytes"


def find_wrong_parts(
    sent: Mapping[str, Sequence[Digest]], events: Sequence[RecordedEvent]
) -> Iterator[str]:
    """Return the submitted turns that do not have the parts that their client sent, in order."""
    for recorded in events:
        if isinstance(recorded.event, TurnSubmitted | TurnQueued) and (
            key := recorded.envelope.commandkey
        ):
            named = [part.digest for part in recorded.event.parts]
            if named != [*sent.get(key, ())]:
                yield f"{key} sent {sent.get(key, ())}, and its turn has {named}"


def find_untrue_absences(
    tenant: str,
    tries: Sequence[CommandTry],
    sent: Mapping[str, Sequence[Digest]],
    stored: SimulatedStream,
) -> Iterator[str]:
    """Return the turns that were refused although all that they named was stored by then."""
    for each in tries:
        if each.refused and each.body.get("code") == MISSING_MEDIA:
            asked = START_TIME + timedelta(seconds=each.asked_at)
            lists = [_find_list(tenant, digest, stored) for digest in sent.get(each.key, ())]
            if all(found is not None and found.at <= asked for found in lists):
                yield f"{each.key} was told that bytes are missing, and they were stored before"


def _read_parts(recorded: RecordedEvent) -> tuple[MediaPart, ...]:
    match recorded.event:
        case TurnSubmitted(parts=parts) | TurnQueued(parts=parts) | ToolReturned(parts=parts):
            return parts
        case _:
            return ()


def _read_media(tenant: str, digest: Digest, stored: SimulatedStream) -> bytes | None:
    found = _find_list(tenant, digest, stored)
    if found is None:
        return None
    names = ChunkList.model_validate_json(found.data).chunks
    chunks = [_find_first(build_blob_subject(tenant, name), stored) for name in names]
    whole = [chunk.data for chunk in chunks if chunk is not None]
    return b"".join(whole) if len(whole) == len(chunks) else None


def _find_list(tenant: str, digest: Digest, stored: SimulatedStream) -> SimulatedMessage | None:
    return _find_first(build_media_subject(tenant, digest), stored)


def _find_first(subject: str, stored: SimulatedStream) -> SimulatedMessage | None:
    return next(iter(stored.list_messages(subject, 1, 1, stored.find_end())), None)
