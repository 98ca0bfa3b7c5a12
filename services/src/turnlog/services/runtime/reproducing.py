"""Reproducing one call: its prompt had again in both ways, however long its session is.

Whatever cannot be fetched any more is part of the answer and no error, since the record of a call
is worth most where its prompt is gone.
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
"""Why material is refused that names what this installation does not have."""


@dataclass(frozen=True, slots=True)
class Ways:
    """A prompt, had again."""

    reference: Way
    assembly: Way


async def reproduced(past: Past, moment: Moment, call: ContextAssembled) -> Ways:
    """Have the prompt of a call again; `moment` is that of the event that fixed it.

    Its texts are those of the store, for both ways alike, whatever this process holds of them.
    """
    # Read first: the texts of these events are those that assembling asks for
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
    """Give the events that the call refers to, or why they cannot be had."""
    try:
        return await past.referred(moment)
    except Corrupt as error:
        return failed(error)


def _referred(call: ContextAssembled, told: Sequence[Recorded], blobs: Mapping[Digest, str]) -> Way:
    known = tuple(each for each in told if each.sequence <= call.manifest.sequence)
    return by_reference(call, known, {turn.turn: turn for turn in history(known)}, blobs)


async def _made(past: Past, moment: Moment) -> Made | Way:
    """Give what the call was assembled from, or why that cannot be had."""
    try:
        return await past.made(moment)
    except Refused as refused:
        if refused.code != NOT_INSTALLED:
            return failed(refused)
        return Way("unreproducible", None, "installation", refused.detail)
    except Corrupt as error:
        return failed(error)
