from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from turnlog.events.log.ports import EventLog, RawEvent
from turnlog.projections.audit.chain import ChainEnd, ChainKey, parse_chain_key

MAX_BATCH_BYTES: Final = 16_000_000
"""Stored bytes that a batch may have, unless it is a single session."""
MAX_BATCH_SESSIONS: Final = 500
"""Sessions in a batch; the database is asked for all of them in one query."""

ChainEnds = Mapping[ChainKey, ChainEnd]
SessionBatch = dict[ChainKey, list[RawEvent]]
"""Sessions in the order they began, each with all its stored events."""


async def read_session_batches(log: EventLog, tenant: str, ends: ChainEnds) -> AsyncGenerator[SessionBatch]:
    """Yield sessions up to their ends, one batch at a time."""
    for group in split_into_batches(ends):
        yield await _read_batch(log, tenant, {key: ends[key] for key in group})


def split_into_batches(ends: ChainEnds) -> Iterator[Sequence[ChainKey]]:
    """Split sessions into batches, in the order they began."""
    group, size = list[ChainKey](), 0
    for key, end in sorted(ends.items(), key=lambda item: item[1].first_stream_sequence):
        if group and (size + end.byte_count > MAX_BATCH_BYTES or len(group) == MAX_BATCH_SESSIONS):
            yield group
            group, size = [], 0
        group.append(key)
        size += end.byte_count
    if group:
        yield group


async def _read_batch(log: EventLog, tenant: str, ends: ChainEnds) -> SessionBatch:
    held: SessionBatch = {key: [] for key in ends}
    first = min(end.first_stream_sequence for end in ends.values())
    last = max(end.last_stream_sequence for end in ends.values())
    async with aclosing(log.stream_raw_events(tenant, first - 1, live=False)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                key = parse_chain_key(raw.subject)
                if key in held and raw.stream_sequence <= ends[key].last_stream_sequence:
                    held[key].append(raw)
            if bulk[-1].stream_sequence >= last:
                return held
    return held
