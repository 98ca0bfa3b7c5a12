"""Reproducing one call: its prompt had again in both ways, however long its session is.

Whatever cannot be fetched any more is part of the answer and no error, since the record of a call
is worth most where its prompt is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.call import ContextAssembled
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.reproduction import Way, by_assembly, by_reference, failed
from turnlog.projections.history import history
from turnlog.projections.window.readback import blobs_of
from turnlog.services.runtime.past import Moment, Past
from turnlog.services.runtime.records import Records

NOT_INSTALLED: Final = "unknown-step"
"""Why material is refused that names what this installation does not have."""


@dataclass(frozen=True, slots=True)
class Ways:
    """A prompt, had again."""

    reference: Way
    assembly: Way


async def reproduced(past: Past, moment: Moment, call: ContextAssembled) -> Ways:
    """Have the prompt of a call again; `moment` is that of the event that fixed it."""
    return Ways(await _referred(past, moment, call), await _assembled(past, moment))


async def _referred(past: Past, moment: Moment, call: ContextAssembled) -> Way:
    try:
        known = await past.referred(moment)
    except Corrupt as error:
        return failed(error)
    known = tuple(each for each in known if each.sequence <= call.manifest.sequence)
    blobs = await Records(past.sessions).blobs(moment.recorded.tenant, blobs_of(call.manifest))
    return by_reference(call, known, {turn.turn: turn for turn in history(known)}, blobs)


async def _assembled(past: Past, moment: Moment) -> Way:
    try:
        return by_assembly(await past.made(moment))
    except Refused as refused:
        if refused.code != NOT_INSTALLED:
            return failed(refused)
        return Way("unreproducible", None, "installation", refused.detail)
    except Corrupt as error:
        return failed(error)
