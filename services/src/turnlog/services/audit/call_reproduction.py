"""Reproduction of one call's prompt in two ways, however long its session is.

A text that can no longer be fetched is part of the result and not an error, because the record of a
call matters most when its prompt is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.record.prompt_readback import list_referenced_blobs
from turnlog.projections.audit.record.session_replay import RecordedCallInputs
from turnlog.projections.audit.verify.prompt_reproduction import (
    ReproductionResult,
    build_failure,
    reproduce_by_assembly,
    reproduce_by_reference,
)
from turnlog.projections.prompt.message_media import NO_BYTES, MediaBytes
from turnlog.projections.prompt.sources.session_material import get_pins
from turnlog.projections.session_views.session_history import build_history
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.sessions.time_travel import StateAt, TimeTravel

UNKNOWN_STEP_CODE: Final = "unknown-step"
"""The refusal code for material that names a step which is not installed here."""


@dataclass(frozen=True, slots=True)
class ReproducedPrompt:
    """A prompt, reproduced in two ways."""

    reference: ReproductionResult
    assembly: ReproductionResult


async def reproduce_call(
    time_travel: TimeTravel, state_at: StateAt, call: ContextAssembled
) -> ReproducedPrompt:
    """Reproduce a call's prompt; `state_at` is the event that fixed it, with its state.

    Both ways read the blobs from the store, not from this process's cache.
    """
    # Read these first: it fills the text cache that assembling reads from.
    loaded_events = await _load_referenced_events(time_travel, state_at)
    made = await _load_assembly_inputs(time_travel, state_at)
    named = list_referenced_blobs(call.manifest)
    if isinstance(made, RecordedCallInputs):
        named = (*get_pins(made.state).digests, *made.texts.blobs, *named)
    blobs = await SessionRecordLoader(time_travel.command_handler).load_blobs(
        state_at.recorded.tenant, named
    )
    media = await _load_media(time_travel, state_at, call)
    reference = (
        loaded_events
        if isinstance(loaded_events, ReproductionResult)
        else media
        if isinstance(media, ReproductionResult)
        else _reproduce_by_reference(call, loaded_events, blobs, media)
    )
    lost = next((digest for digest in named if digest not in blobs), None)
    match made:
        case ReproductionResult():
            return ReproducedPrompt(reference, made)
        case _ if lost:
            return ReproducedPrompt(
                reference, build_failure(Corrupt(f"blob {lost}", "the blob is missing"))
            )
        case RecordedCallInputs():
            return ReproducedPrompt(reference, reproduce_by_assembly(made))


async def _load_referenced_events(
    time_travel: TimeTravel, state_at: StateAt
) -> Sequence[RecordedEvent] | ReproductionResult:
    try:
        return await time_travel.load_referenced_events(state_at)
    except Corrupt as error:
        return build_failure(error)


async def _load_media(
    time_travel: TimeTravel, state_at: StateAt, call: ContextAssembled
) -> MediaBytes | ReproductionResult:
    """Return the bytes of the pictures, recordings and files of a body that was sent as it is."""
    if call.body_digest is None:
        return NO_BYTES
    parts = (each for each in call.manifest.parts if each.at is not None and each.digest)
    sent = [each.digest for each in parts if each.digest and each.treatment != "dropped"]
    try:
        return await time_travel.command_handler.texts.media.read_media(
            state_at.recorded.tenant, sent
        )
    except Corrupt as error:
        return build_failure(error)


def _reproduce_by_reference(
    call: ContextAssembled,
    referenced: Sequence[RecordedEvent],
    blobs: Mapping[Digest, str],
    media: MediaBytes,
) -> ReproductionResult:
    known = tuple(each for each in referenced if each.sequence <= call.manifest.sequence)
    turns = {turn.turn: turn for turn in build_history(known)}
    return reproduce_by_reference(call, known, turns, blobs, media=media)


async def _load_assembly_inputs(
    time_travel: TimeTravel, state_at: StateAt
) -> RecordedCallInputs | ReproductionResult:
    try:
        return await time_travel.load_assembly_inputs(state_at)
    except Refused as refused:
        if refused.code != UNKNOWN_STEP_CODE:
            return build_failure(refused)
        return ReproductionResult("unreproducible", None, "installation", refused.detail)
    except Corrupt as error:
        return build_failure(error)
