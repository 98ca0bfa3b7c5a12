"""The rule that links the events of a history: each continues the stored bytes of the one before.

Its sequence is the next one, and it names the digest of the bytes before it. Everything that reads,
folds or watches events asks here. An audit says more about a break, and works on the chain fields
alone (`audit/verify/hash_chain`); the verifier of bundles has the rule of its own on purpose.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, cast

from turnlog.events.content import Digest
from turnlog.events.envelope import SEQUENCE_LIMIT, ChainHead, EventHeader, RecordedEvent


def find_chain_break(
    recorded: RecordedEvent, last_sequence: int, last_hash: Digest | None
) -> str | None:
    """Return why an event does not continue its history, or None if it does."""
    if recorded.sequence != last_sequence + 1:
        return f"sequence {recorded.sequence} where {last_sequence + 1} is due"
    if recorded.envelope.prevhash != last_hash:
        return "is not chained to the event before it"
    return None


def is_next_event(recorded: RecordedEvent, head: ChainHead | None) -> bool:
    """Return whether an event directly follows a head; with None, whether it is the first one."""
    last = (head.sequence, head.hash) if head else (0, None)
    return find_chain_break(recorded, *last) is None


ENVELOPE_START: Final = re.compile(
    rb'\{"specversion":"1\.0","id":"[^"\\]*","source":"[^"\\]*","type":"[^"\\]*"'
    rb',"subject":"([^"\\]*)","time":"[^"\\]*","tenant":"([^"\\]*)","sequence":([0-9]{1,20})'
    rb'(?:,"prevstreamseq":([0-9]{1,20}))?(?:,"prevhash":"([^"\\]*)")?,"actor":'
)
"""How every event begins that a release of Turnlog wrote; other bytes are parsed as JSON."""


class ChainHeader(NamedTuple):
    """The chain fields of an event as its own bytes state them; nothing here is verified."""

    tenant: str
    session: str
    """The session, or the family of a library."""
    sequence: int
    prevstreamseq: int | None
    prevhash: Digest | None


def parse_chain_header(stored: bytes) -> ChainHeader | None:
    """Return the chain header of stored bytes, or None if they are not an event."""
    found = ENVELOPE_START.match(stored)
    if found is None:
        return _parse_json_header(stored)
    session, tenant, sequence, place, digest = found.groups()
    try:
        return ChainHeader(
            tenant=tenant.decode(),
            session=session.decode(),
            sequence=int(sequence),
            prevstreamseq=int(place) if place else None,
            prevhash=digest.decode() if digest else None,
        )
    except ValueError:
        return None  # The quoted bytes are not valid UTF-8.


def get_chain_header(envelope: EventHeader) -> ChainHeader:
    """Return the chain header of a decoded event."""
    return ChainHeader(
        tenant=envelope.tenant,
        session=envelope.subject,
        sequence=envelope.sequence,
        prevstreamseq=envelope.prevstreamseq,
        prevhash=envelope.prevhash,
    )


def _parse_json_header(stored: bytes) -> ChainHeader | None:
    try:
        decoded = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    fields = cast("dict[str, object]", decoded)
    match [fields.get(name) for name in ("tenant", "subject", "sequence")]:
        case [str() as tenant, str() as session, int() as sequence] if (
            sequence < SEQUENCE_LIMIT and _is_encodable(tenant + session)
        ):
            place, digest = fields.get("prevstreamseq"), fields.get("prevhash")
            return ChainHeader(
                tenant=tenant,
                session=session,
                sequence=sequence,
                prevstreamseq=place if isinstance(place, int) else None,
                prevhash=digest if isinstance(digest, str) else None,
            )
        case _:
            return None


def _is_encodable(text: str) -> bool:
    """Return whether the text encodes to UTF-8; JSON can contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
