"""What a process builds before it is ready, since at its first use it would hold the event loop.

pydantic builds the validators of deferred models when these are first used: of stored events and of
answers, a tenth of a second in all. Python looks for entry points in the folders of all packages,
anyio imports what it needs on asyncio, and the first check by a JSON Schema imports its package, of
which the first turn with tools would wait beside the import of the MCP package. Blueprints are not
among it: they are read in threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import anyio
from pydantic import BaseModel

from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.stream_payloads import StreamPayload
from turnlog.events.codec import build_envelopes
from turnlog.projections.structured_output.schema_validation import find_violation
from turnlog.services.extensions.plugins import read_entry_points
from turnlog.services.platform.concurrency import run_in_thread


async def prepare_process() -> None:
    """Build it in a thread, while the process connects."""
    await run_in_thread(build_ahead)


@cache
def build_ahead() -> None:
    """Build it, once, for the modules that are imported. Blocks."""
    read_entry_points()
    build_envelopes()
    for base in (ResponseModel, StreamPayload):
        for model in _iterate_subclasses(base):
            model.model_rebuild()
    anyio.run(anyio.sleep, 0)
    find_violation(None, {})


def _iterate_subclasses(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from _iterate_subclasses(each)
