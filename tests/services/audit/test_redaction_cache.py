"""The redactions that readers of all sessions get: read once, and then only what came since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.events.log_sessions import append_one_by_one, require_appended
from turnlog.events.codec import encode_batch
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.events.testing import make_drafts
from turnlog.services.audit.redactions import RedactionCache


@dataclass(kw_only=True)
class ReadRecordingLog(MemoryLog):
    """A log that notes from where its redactions are read."""

    read_after: list[int] = field(default_factory=list[int])

    async def read_raw_events_by_leaf(
        self, tenant: str, leaf: str, after: int = 0
    ) -> Sequence[RawEvent]:
        self.read_after.append(after)
        return await super().read_raw_events_by_leaf(tenant, leaf, after)


async def redact_reply(log: EventLog, session: str, last: RecordedEvent) -> RecordedEvent:
    redacted = ReplyRedacted(turn=1, reason="x", rule="r", replacement=PlainText(text="-"))
    batch = encode_batch("t", session, last.head, make_drafts([redacted], last.sequence + 1))
    return require_appended(await log.append_batch(batch))[0]


async def test_only_events_since_the_last_request_are_read() -> None:
    log, cache = ReadRecordingLog(), RedactionCache()
    events = await append_one_by_one(log, "t", "s", 5)
    await redact_reply(log, "s", events[-1])
    assert (await cache.load_redactions(log, "t")).by_session.keys() == {"s"}
    (other,) = await append_one_by_one(log, "t", "other", 1)
    await redact_reply(log, "other", other)
    assert (await cache.load_redactions(log, "t")).by_session.keys() == {"s", "other"}
    assert log.read_after == [0, 6]


async def test_log_with_another_identity_is_read_from_its_start() -> None:
    cache, logs = RedactionCache(), (ReadRecordingLog(), ReadRecordingLog(created="later"))
    for log in logs:
        await append_one_by_one(log, "t", "s", 2)
        await cache.load_redactions(log, "t")
    assert [log.read_after for log in logs] == [[0], [0]]


async def test_shorter_log_is_read_from_its_start() -> None:
    cache, long, short = RedactionCache(), ReadRecordingLog(), ReadRecordingLog()
    await append_one_by_one(long, "t", "s", 3)
    await append_one_by_one(short, "t", "s", 2)
    await cache.load_redactions(long, "t")
    await cache.load_redactions(short, "t")
    assert short.read_after == [0]
