from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

from turnlog.projections.audit.transcript import Afterwards, Untold, transcript
from turnlog.services.bundle.taking import Taken
from turnlog.services.runtime.pages import Told, Unread


async def talk(taken: Taken) -> AsyncGenerator[bytes]:
    """Yield the Markdown transcript in pieces.

    The session is read twice, because later events change how earlier turns are shown.
    """
    afterwards, untold = Afterwards(), Untold()
    async for page in taken.pages():
        for recorded in page:
            if not isinstance(recorded, Unread):
                afterwards.learn(recorded)
    async for page in taken.pages():
        yield "".join(part for each in page for part in _told(each, afterwards, untold)).encode()
    yield "".join(untold.rest(afterwards)).encode()


def _told(each: Told, afterwards: Afterwards, untold: Untold) -> Iterator[str]:
    if isinstance(each, Unread):
        yield f"*Event {each.number} cannot be read: {each.detail}.*\n\n"
    else:
        yield from transcript((each,), afterwards, untold)
