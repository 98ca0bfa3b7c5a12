"""A session's events, a bounded number at a time: however long it is, no more is held at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from turnlog.events.envelope import Head, Recorded
from turnlog.events.log.ports import Log

PAGE: Final = 500


async def pages(log: Log, last: Recorded) -> AsyncGenerator[Sequence[Recorded]]:
    """Give the events of a session from its first up to `last`, in order, without a gap.

    Raises `Corrupt` where the log cannot give them so.
    """
    after: Head | None = None
    while (told := after.sequence if after else 0) < last.sequence:
        upto = last
        if last.sequence - told > PAGE:
            upto = await log.find(last.tenant, last.session, told + PAGE, last)
        page = await log.between(last.tenant, last.session, after, upto)
        yield page
        after = upto.head
