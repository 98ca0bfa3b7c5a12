"""Room in memory for the pictures, recordings and files of all calls that a process makes.

A request has its media several times in memory, from when they are read to the end of the answer.
What comes with an answer, or as the result of a tool, is there until it is stored, and a large
frame of an answer until it is parsed. There is a room for each of the four: a call that waits with
a picture of its answer holds what it has sent, and would wait for itself. A call whose media do not
fit beside those of the others waits until some of these have ended, in the order in which calls
came. Calls without media never wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

MAX_HELD_BYTES: Final = 128 * 1024 * 1024
"""Bytes of the media of all calls of a process at a time, each counted as often as it is sent: two
of the largest prompts. One that is larger is sent alone.
"""


@dataclass(eq=False)
class MediaRoom:
    """The room of a process."""

    most_bytes: int = MAX_HELD_BYTES
    taken: int = 0
    """Bytes that calls have reserved."""
    _waiting: deque[tuple[int, asyncio.Future[None]]] = field(
        default_factory=deque[tuple[int, asyncio.Future[None]]]
    )

    @property
    def waiting_count(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)

    @contextmanager
    def open_share(self) -> Generator[MediaShare]:
        """Give a call a share, empty at first, which is released when the body ends."""
        share = MediaShare(self)
        try:
            yield share
        finally:
            share.release()

    def try_reserve(self, size: int) -> bool:
        """Reserve so many bytes if they fit and no call waits; return whether they are reserved."""
        if size and (self._waiting or not self._has_room(size)):
            return False
        self.taken += size
        return True

    async def reserve(self, size: int) -> None:
        """Reserve so many bytes once they fit and every call that waits already was served."""
        if self.try_reserve(size):
            return
        served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, served))
        try:
            await served
        except asyncio.CancelledError:
            if not served.cancelled():
                self.taken -= size  # It was served before it was cancelled.
            self._serve_waiting()
            raise

    def release(self, size: int) -> None:
        """Release bytes for those who wait."""
        self.taken -= size
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        self._waiting = deque(each for each in self._waiting if not each[1].cancelled())
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, served = self._waiting.popleft()
            self.taken += size
            served.set_result(None)

    def _has_room(self, size: int) -> bool:
        return not self.taken or self.taken + size <= self.most_bytes


@dataclass(eq=False)
class MediaShare:
    """What one call has reserved of the room."""

    room: MediaRoom
    size: int = 0
    missing: int = 0
    """Bytes for which there was no room when they were tried last; 0 if there was."""

    def try_reserve(self, size: int) -> bool:
        """Reserve so many bytes in place of what was reserved; return False if they do not fit."""
        if size == self.size:
            self.missing = 0
            return True
        self.release()
        is_reserved = self.room.try_reserve(size)
        self.size, self.missing = (size, 0) if is_reserved else (0, size)
        return is_reserved

    async def reserve(self, size: int) -> None:
        """Wait until so many bytes are reserved, in place of what was reserved."""
        if not self.try_reserve(size):
            await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until what is missing is reserved."""
        size = self.missing
        await self.room.reserve(size)
        self.size, self.missing = size, 0

    def release(self) -> None:
        """Release what is reserved."""
        self.room.release(self.size)
        self.size = 0
