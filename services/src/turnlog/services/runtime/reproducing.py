"""Reproduction of one call's prompt in two ways, however long its session is.

A text that can no longer be fetched is part of the result and not an error, because the record of a
call matters most when its prompt is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.reproduction import Way, by_assembly, by_reference, failed
from turnlog.projections.audit.retelling import Made
from turnlog.projections.history import history
from turnlog.projections.window.pinned import pins_of
from turnlog.projections.window.readback import blobs_of
from turnlog.services.runtime.past import Moment, Past
from turnlog.services.runtime.records import Records

NOT_INSTALLED: Final = "unknown-step"
"""The refusal code for material that names a step which is not installed here."""


@dataclass(frozen=True, slots=True)
class Ways:
    """A prompt, reproduced in two ways."""

    reference: Way
    assembly: Way


async def reproduced(past: Past, moment: Moment, call: ContextAssembled) -> Ways:
    """Reproduce a call's prompt; `state_at` is the event that fixed it, with its state.

    Both ways read the blobs from the store, not from this process's cache.
    """
    # Read these first: it fills the text cache that assembling reads from.
    told = await _told(past, moment)
    made = await _made(past, moment)
    named = blobs_of(call.manifest)
    if isinstance(made, Made):
        named = (*pins_of(made.state).digests, *made.texts.blobs, *named)
    blobs = await Records(past.sessions).blobs(moment.recorded.tenant, named)
    reference = told if isinstance(told, Way) else _referred(call, told, blobs)
    lost = next((digest for digest in named if digest not in blobs), None)
    match made:
        case Way():
            return Ways(reference, made)
        case _ if lost:
            return Ways(reference, failed(Corrupt(f"blob {lost}", "it is not there")))
        case Made():
            return Ways(reference, by_assembly(made))


async def _told(past: Past, moment: Moment) -> Sequence[Recorded] | Way:
    """Return the events that the call refers to, or the failure to read them."""
    try:
        return await past.referred(moment)
    except Corrupt as error:
        return failed(error)


def _referred(call: ContextAssembled, told: Sequence[Recorded], blobs: Mapping[Digest, str]) -> Way:
    known = tuple(each for each in told if each.sequence <= call.manifest.sequence)
    return by_reference(call, known, {turn.turn: turn for turn in history(known)}, blobs)


async def _made(past: Past, moment: Moment) -> Made | Way:
    """Return the inputs that the call was assembled from, or the failure to load them."""
    try:
        return await past.made(moment)
    except Refused as refused:
        if refused.code != NOT_INSTALLED:
            return failed(refused)
        return Way("unreproducible", None, "installation", refused.detail)
    except Corrupt as error:
        return failed(error)
