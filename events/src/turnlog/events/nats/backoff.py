from __future__ import annotations

import asyncio
import random
from typing import Final

FIRST_BACKOFF: Final = 0.05
"""Maximum seconds of the first wait."""
MAX_BACKOFF: Final = 1.0
"""Maximum seconds of any wait."""


async def wait_backoff(failures: int) -> None:
    """Wait before a retry, longer on average with each failure in a row.

    Waits are random, so that clients of a restarted server do not all return at once.
    """
    longest = min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures, 10))
    await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 -- spreads, guards nothing
