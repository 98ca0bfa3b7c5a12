"""How long to wait before the same thing is tried again.

Waits are random, so that many clients of one restarted server do not come back in step.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

FIRST: Final = 0.05
"""Seconds the first wait may last."""
LONGEST: Final = 1.0
"""Seconds any wait may last."""


async def back_off(failures: int) -> None:
    """Wait after this many failures in a row, longer on average after each."""
    longest = min(LONGEST, FIRST * 2.0 ** min(failures, 10))
    await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 -- spreads, guards nothing
