"""Copies events of one session into a session forked from it.

The payload, time, actor and sequence of an event are copied unchanged, also when this release does
not know its type. Command keys are not copied, because they belong to the original session. The id
of a copy is derived from the original's id, so copying twice gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from turnlog.events.codec import Batch, Message
from turnlog.events.content import digest_of
from turnlog.events.envelope import Envelope, Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.ids import session_subject, session_subjects
from turnlog.events.kinds import Unknown
from turnlog.events.turn import TurnReleased, TurnSubmitted

_SETTLED: Final = "turn"
"""The leaf of turn events that no worker waits for."""
_WAITED_FOR: Final = (TurnSubmitted.leaf, TurnReleased.leaf)


def copied(session: str, after: Head, originals: Sequence[Recorded], source: str) -> Batch:
    """Return a batch with copies of `originals` after `after`.

    Raises `Corrupt` unless the originals continue the sequence of `after`.
    """
    tenant = originals[0].tenant
    messages: list[Message] = []
    previous, lies = after.hash, after.stream_sequence
    for sequence, original in enumerate(originals, after.sequence + 1):
        if original.sequence != sequence:
            raise Corrupt(f"event {original.sequence}", f"is to be copied as event {sequence}")
        copy = _copy(original, session, source).model_copy(
            update={"prevhash": previous, "prevstreamseq": None if messages else lies}
        )
        payload = copy.model_dump_json(exclude_none=True).encode()
        previous = digest_of(payload)
        messages.append(
            Message(session_subject(tenant, session, _leaf(original)), sequence, payload)
        )
    return Batch(tenant, session, after, tuple(messages), session_subjects(tenant, session))


def _copy(original: Recorded, session: str, source: str) -> Envelope:
    envelope = original.envelope
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


def _leaf(original: Recorded) -> str:
    event = original.event
    if isinstance(event, Unknown) or event.leaf in _WAITED_FOR:
        return _SETTLED
    return event.leaf
