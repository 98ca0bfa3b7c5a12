"""Loads the redactions that decide what ordinary readers get of stored events.

They are read from the log and not from the read models, so that a text is withheld from the moment
its redaction is acknowledged, whatever the projector does. A process that serves all sessions of a
tenant keeps what it has read, and reads only what came since.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.redaction_events import REDACTION_LEAF
from turnlog.events.store.ports import EventLog, LogIdentity
from turnlog.events.stray_messages import decode_unless_stray
from turnlog.projections.session_views.withheld_events import RedactedTurns


async def load_session_redactions(log: EventLog, last: RecordedEvent) -> RedactedTurns:
    """Return the redactions of a session up to its last event."""
    redacted = RedactedTurns()
    found = await log.read_events_by_leaf(last.tenant, last.session, REDACTION_LEAF, last.head)
    for recorded in found:
        redacted.apply_event(recorded)
    return redacted


@dataclass
class _TenantRedactions:
    """The redactions of a tenant up to a position of its stream."""

    log: LogIdentity
    position: int = 0
    turns: RedactedTurns = field(default_factory=RedactedTurns)


@dataclass
class RedactionCache:
    """The redactions of all sessions of each tenant, as this process has read them."""

    _by_tenant: dict[str, _TenantRedactions] = field(default_factory=dict[str, _TenantRedactions])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load_redactions(self, log: EventLog, tenant: str) -> RedactedTurns:
        """Return all redactions up to now; undecodable events are skipped.

        Raises `Corrupt` if one is missing, because then nobody knows which text it withholds.
        """
        async with self._lock:
            identity, end = await asyncio.gather(
                log.get_identity(tenant), log.get_last_stream_sequence(tenant)
            )
            known = self._by_tenant.get(tenant)
            if known is None or known.log != identity or known.position > end:
                known = _TenantRedactions(identity)
            raws = await log.read_raw_events_by_leaf(tenant, REDACTION_LEAF, known.position)
            for raw in raws:
                with suppress(Corrupt):
                    event = decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
                    if event is not None:
                        known.turns.apply_event(event)
            known.position = max(known.position, end)
            self._by_tenant[tenant] = known
            return known.turns
