from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from turnlog.events.log.ports import Log, Raw
from turnlog.projections.audit.chain import End, Key, key_of

HELD: Final = 16_000_000
"""Stored bytes that a batch may have, unless it is a single session."""
MOST_SESSIONS: Final = 500
"""Sessions in a batch; the database is asked for all of them in one query."""

Ends = Mapping[Key, End]
Stretch = dict[Key, list[Raw]]
"""Sessions in the order they began, each with all its stored events."""


async def stretches(log: Log, tenant: str, ends: Ends) -> AsyncGenerator[Stretch]:
    """Yield sessions up to their ends, one batch at a time."""
    for group in groups(ends):
        yield await _read(log, tenant, {key: ends[key] for key in group})


def groups(ends: Ends) -> Iterator[Sequence[Key]]:
    """Split sessions into batches, in the order they began."""
    group, size = list[Key](), 0
    for key, end in sorted(ends.items(), key=lambda item: item[1].first):
        if group and (size + end.size > HELD or len(group) == MOST_SESSIONS):
            yield group
            group, size = [], 0
        group.append(key)
        size += end.size
    if group:
        yield group


async def _read(log: Log, tenant: str, ends: Ends) -> Stretch:
    held: Stretch = {key: [] for key in ends}
    first = min(end.first for end in ends.values())
    last = max(end.last for end in ends.values())
    async with aclosing(log.follow(tenant, first - 1, live=False)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                key = key_of(raw.subject)
                if key in held and raw.stream_sequence <= ends[key].last:
                    held[key].append(raw)
            if bulk[-1].stream_sequence >= last:
                return held
    return held
