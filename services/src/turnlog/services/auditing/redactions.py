"""Loads the redactions that decide what ordinary readers get of stored events.

They are read from the log and not from the read models, so that a text is withheld from the moment
its redaction is acknowledged, whatever the projector does.
"""

from __future__ import annotations

from contextlib import suppress

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.store.ports import EventLog
from turnlog.projections.read_models.withheld_events import RedactedTurns


async def load_session_redactions(log: EventLog, last: RecordedEvent) -> RedactedTurns:
    """Return the redactions of a session up to its last event."""
    redacted = RedactedTurns()
    leaf = ReplyRedacted.leaf
    for recorded in await log.read_events_by_leaf(last.tenant, last.session, leaf, last.head):
        redacted.apply_event(recorded)
    return redacted


async def load_tenant_redactions(log: EventLog, tenant: str) -> RedactedTurns:
    """Return the redactions of all sessions of a tenant; undecodable events are skipped."""
    redacted = RedactedTurns()
    for raw in await log.read_raw_events_by_leaf(tenant, ReplyRedacted.leaf):
        with suppress(Corrupt):
            redacted.apply_event(decode_event(raw.stored, raw.stream_sequence))
    return redacted
