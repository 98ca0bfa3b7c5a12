from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

from turnlog.projections.audit.transcript import LaterChanges, UnsettledTurns, render_transcript
from turnlog.services.bundle.taking import ExportSource
from turnlog.services.runtime.pages import PagedEvent, UndecodablePagedEvent


async def export_markdown(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the Markdown transcript in pieces.

    The session is read twice, because later events change how earlier turns are shown.
    """
    afterwards, untold = LaterChanges(), UnsettledTurns()
    async for page in source.iterate_pages():
        for recorded in page:
            if not isinstance(recorded, UndecodablePagedEvent):
                afterwards.apply_event(recorded)
    async for page in source.iterate_pages():
        yield "".join(part for each in page for part in _render_event(each, afterwards, untold)).encode()
    yield "".join(untold.render_remaining(afterwards)).encode()


def _render_event(each: PagedEvent, afterwards: LaterChanges, untold: UnsettledTurns) -> Iterator[str]:
    if isinstance(each, UndecodablePagedEvent):
        yield f"*Event {each.number} cannot be read: {each.detail}.*\n\n"
    else:
        yield from render_transcript((each,), afterwards, untold)
