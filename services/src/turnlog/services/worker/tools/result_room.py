"""Room in memory for the results of tools that a worker decodes, judges and stores at a time.

Each result has a limit of its own, but the tools of many turns answer at once. A result that has
arrived waits until it fits beside the others, before it is decoded. Whatever a tool server still
has to send is not here yet, so a server that is slow holds up nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from turnlog.services.worker.media_room import MediaShare


@dataclass(frozen=True, slots=True)
class _ArrivingResult:
    share: MediaShare
    report_arrival: Callable[[], None]


_arriving: ContextVar[_ArrivingResult | None] = ContextVar("arriving_result", default=None)


@contextmanager
def use_result_share(share: MediaShare, report_arrival: Callable[[], None]) -> Generator[None]:
    """Let the result of the tool that is called within wait for room in a share.

    `report_arrival` is called before it waits: the time that its server may take is over then.
    """
    token = _arriving.set(_ArrivingResult(share, report_arrival))
    try:
        yield
    finally:
        _arriving.reset(token)


async def reserve_result_room(size: int) -> None:
    """Wait until there is room for so many bytes of a result, unless nobody limits it."""
    arriving = _arriving.get()
    if arriving is not None:
        arriving.report_arrival()
        await arriving.share.reserve(max(size, arriving.share.size))
