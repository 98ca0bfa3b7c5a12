"""The generations of a keyring: which records of KEYS are under which, and the end of one.

The records of a generation that is to end are wrapped again under the newest one. Once none is left
under it, its line can be removed from the keyring, and no copy of an earlier record opens any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_consecutive_messages,
    get_last_message,
    get_next_message,
)
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.session_keys import (
    delete_replaced_record,
    parse_record,
    store_record,
)
from turnlog.events.seals.keyrings import SealKeyring
from turnlog.events.subjects import ALL_KEY_SUBJECTS, KEYS_STREAM, parse_key_subject

PAGE_RECORDS: Final = 500
"""Records that are read at a time."""

CONCURRENT_REWRAPS: Final = 64
"""Records that are wrapped again at a time."""


@dataclass(frozen=True, slots=True)
class UnfitRecord:
    """A record that this keyring does not open, and why."""

    tenant: str
    session: str
    reason: str


@dataclass(frozen=True, slots=True)
class RetirementReport:
    """What became of a generation and of the ones before it."""

    rewrapped: int
    """How many records were wrapped again."""
    unfit: Sequence[UnfitRecord]
    """Those that stay as they are, since this keyring does not open them."""
    removed: bool
    """Whether the keyring has none of these generations any more."""


async def count_records(connection: NatsConnection) -> Mapping[int, int]:
    """Return how many records there are by generation; those of none are under 0."""
    counts = dict[int, int]()
    async with aclosing(_stream_records(connection)) as pages:
        async for page in pages:
            for each in page:
                generation = _find_generation(each)
                counts[generation] = counts.get(generation, 0) + 1
    return counts


@dataclass(slots=True, kw_only=True)
class GenerationRetirement:
    """Ends a generation, and those before it: wraps their records under the newest one.

    A record is replaced only where it is still the last one of its session, so that nothing comes
    back that was erased meanwhile. What an interrupted run has done stays done, and the keyring has
    the generation until no record needs it.
    """

    connection: NatsConnection
    keyring: SealKeyring
    """One that has the generation to its end, whatever becomes of the file."""
    generation: int
    remove_lines: Callable[[], Awaitable[None]] | None
    """Take these generations out of the file of the keyring; None where it is to stay as it is."""
    note_progress: Callable[[int], None] = lambda _: None
    """Called with the number of records that were wrapped again so far."""
    rewrapped: int = 0

    async def retire_generation(self) -> RetirementReport:
        """End the generation; refuses where there is no later one."""
        newest = await self.keyring.find_generation()
        if newest <= self.generation:
            detail = f"generation {self.generation} is not before the newest one, which is {newest}"
            fix = "add one with `turnlog keyring rotate`"
            raise Refused("bad-generation", detail, field="GENERATION", fix=fix)
        unfit = await self._rewrap_records()
        if unfit or self.remove_lines is None:
            return RetirementReport(self.rewrapped, unfit, removed=False)
        await self.remove_lines()
        # What a process wrapped before the new generation was there can be stored after the last
        # look. It is wrapped again by that process, or here, where it died in between.
        unfit = await self._rewrap_records()
        return RetirementReport(self.rewrapped, unfit, removed=True)

    async def _rewrap_records(self) -> Sequence[UnfitRecord]:
        """Wrap records again until none is left; return those that cannot be."""
        while True:
            seen, unfit = await self._rewrap_once()
            if seen == len(unfit):
                return unfit

    async def _rewrap_once(self) -> tuple[int, Sequence[UnfitRecord]]:
        """Read all records; return how many were under the generation, and those left there."""
        seen, unfit = 0, list[UnfitRecord]()
        async with aclosing(_stream_records(self.connection)) as pages:
            async for page in pages:
                due = [each for each in page if _find_generation(each) <= self.generation]
                seen += len(due)
                for start in range(0, len(due), CONCURRENT_REWRAPS):
                    some = due[start : start + CONCURRENT_REWRAPS]
                    found = await asyncio.gather(*map(self._rewrap_record, some))
                    unfit += filter(None, found)
                self.note_progress(self.rewrapped)
        return seen, unfit

    async def _rewrap_record(self, record: StoredMessage) -> UnfitRecord | None:
        tenant, session = parse_key_subject(record.subject)
        try:
            wrapped = parse_record(session, record.payload)
            keys = await self.keyring.unwrap_keys(tenant, wrapped)
        except Corrupt as error:
            if await self._is_replaced(record):
                await delete_replaced_record(self.connection, record.stream_sequence)
                return None
            return UnfitRecord(tenant, session, error.detail)
        stored = await store_record(
            connection=self.connection,
            keyring=self.keyring,
            owner=(tenant, session),
            keys=keys,
            behind=record.stream_sequence,
        )
        self.rewrapped += stored is not None
        # There is a later one in either case, its own or that of another writer.
        await delete_replaced_record(self.connection, record.stream_sequence)
        return None

    async def _is_replaced(self, record: StoredMessage) -> bool:
        last = await get_last_message(self.connection, KEYS_STREAM, record.subject, leader=True)
        return last is None or last.stream_sequence != record.stream_sequence


def _find_generation(record: StoredMessage) -> int:
    """Return the generation of a record; 0 for what is none."""
    try:
        return parse_record("", record.payload).generation
    except Corrupt:
        return 0


async def _stream_records(
    connection: NatsConnection,
) -> AsyncGenerator[Sequence[StoredMessage]]:
    """Yield all records in the order they were stored, as the leader of the stream has them.

    Another replica may hand them out, but what it leaves out is asked of the leader. Raises
    `Unavailable` where the leader cannot know the last ones.
    """
    start = 1
    while True:
        await fetch_stream_info(connection, KEYS_STREAM)
        first = await get_next_message(
            connection, KEYS_STREAM, ALL_KEY_SUBJECTS, start, leader=True
        )
        if first is None:
            return
        page = await _read_page(connection, first)
        yield page
        start = page[-1].stream_sequence + 1


async def _read_page(connection: NatsConnection, first: StoredMessage) -> Sequence[StoredMessage]:
    """Return a record and those after it, as far as the leader has nothing between them."""
    page = [first]
    found = await get_consecutive_messages(
        connection=connection,
        stream=KEYS_STREAM,
        subjects=ALL_KEY_SUBJECTS,
        start=first.stream_sequence + 1,
        count=PAGE_RECORDS,
    )
    for each in found:
        following = page[-1].stream_sequence + 1
        if each.stream_sequence != following:
            at_leader = await get_next_message(
                connection, KEYS_STREAM, ALL_KEY_SUBJECTS, following, leader=True
            )
            if at_leader is None or at_leader.stream_sequence != each.stream_sequence:
                break
        page.append(each)
    return page
