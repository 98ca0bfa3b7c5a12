"""When a log counts as rolled back: once its leader has reported it for a while.

A server that has lost the others answers as leader for up to twenty seconds, and what was stored
meanwhile elsewhere is missing there; reads of the stream's information refuse such a leader. What
another leader says in the next seconds settles the rest. A log whose end still moves is not at its
end yet, so its time starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from turnlog.events.errors import LogRolledBack

CONFIRM_SECONDS: Final = 5.0
"""Seconds for which the leader must report the same."""

LOOK_SECONDS: Final = 0.2
"""Seconds between two looks at the leader."""

FindRollback = Callable[[], Awaitable[LogRolledBack | None]]
"""Asks the leader whether the log lacks what was read from it; raises `Unavailable`."""


async def confirm_rollback(
    find_rollback: FindRollback, seconds: float = CONFIRM_SECONDS
) -> LogRolledBack | None:
    """Return a rollback that is found unchanged for this many seconds; None if it disappears.

    Raises `Unavailable` while no leader answers.
    """
    clock = asyncio.get_running_loop()
    found, since = await find_rollback(), clock.time()
    while found is not None and clock.time() - since < seconds:
        await asyncio.sleep(LOOK_SECONDS)
        again = await find_rollback()
        if again is not None and again.detail != found.detail:
            since = clock.time()
        found = again
    return found
