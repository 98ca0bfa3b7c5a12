"""Copying: events of one session as events of another, which was forked from it.

What an event says is taken over byte for byte as its envelope holds it, also where no release here
knows its type; the time, the actor and the sequence stay. Keys of commands are not taken over,
since they were put to the other session. A copy has an id that follows from whose copy it is, so
copying twice gives the same bytes.
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
"""Where turns lie that no worker is to be told of."""
_WAITED_FOR: Final = (TurnSubmitted.leaf, TurnReleased.leaf)


def copied(session: str, after: Head, originals: Sequence[Recorded], source: str) -> Batch:
    """Place copies behind `after`; raises `Corrupt` unless they are the events that come there."""
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
