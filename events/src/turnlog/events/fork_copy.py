"""Copies events of one session into a session forked from it.

The payload, time, actor and sequence of an event are copied unchanged, also when this release does
not know its type. So is the box of a sealed event, and the copy opens with the keys of the
original. Command keys are not copied, because they belong to the original session. The id of a copy
is derived from the original's id, so copying twice gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from turnlog.events.codec import BatchMessage, EventBatch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead, Envelope, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.registry import UnknownEvent
from turnlog.events.seals.sealed_payload import SealedPayload
from turnlog.events.subjects import SESSION_HISTORY

_UNCLAIMABLE_LEAF: Final = "turn"
"""The leaf of turn events that no worker waits for."""

_CLAIMABLE_LEAVES: Final = (TurnSubmitted.leaf, TurnReleased.leaf)


def copy_events(
    session: str, after: ChainHead, originals: Sequence[RecordedEvent], source: str
) -> EventBatch:
    """Return a batch with copies of `originals` after `after`.

    Raises `Corrupt` unless the originals continue the sequence of `after`.
    """
    tenant = originals[0].tenant
    messages: list[BatchMessage] = []
    previous, previous_position = after.hash, after.stream_sequence
    for sequence, original in enumerate(originals, after.sequence + 1):
        if original.sequence != sequence:
            raise Corrupt(f"event {original.sequence}", f"is to be copied as event {sequence}")
        copy = _copy_envelope(original, session, source).model_copy(
            update={"prevhash": previous, "prevstreamseq": None if messages else previous_position}
        )
        payload = copy.model_dump_json(exclude_none=True).encode()
        if isinstance(original.stored, SealedPayload):
            payload = original.stored.copy_to(payload)
        previous = compute_digest(payload)
        messages.append(
            BatchMessage(
                SESSION_HISTORY.build_subject(tenant, session, _choose_leaf(original)),
                sequence,
                payload,
            )
        )
    return EventBatch(
        tenant=tenant,
        session=session,
        after=after,
        messages=tuple(messages),
        subjects=SESSION_HISTORY.build_filter(tenant, session),
    )


def _copy_envelope(original: RecordedEvent, session: str, source: str) -> Envelope:
    envelope = Envelope.model_validate_json(original.stored)
    return envelope.model_copy(
        update={
            "id": str(uuid5(NAMESPACE_URL, f"{envelope.tenant}/{session}/{envelope.id}")),
            "source": source,
            "subject": session,
            "causationid": None,
            "commandkey": None,
            "commandhash": None,
            "traceparent": None,
            "copyof": envelope.id,
        }
    )


def _choose_leaf(original: RecordedEvent) -> str:
    event = original.event
    if isinstance(event, UnknownEvent) or event.leaf in _CLAIMABLE_LEAVES:
        return _UNCLAIMABLE_LEAF
    return event.leaf
