"""Proofs of calls: the events of one, and the path from them to the root of all of the session's.

A proof has the stored bytes, so texts that are withheld from ordinary readers are in it, as in a
bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract.call_payloads import CallProofView, ProvenEvent
from turnlog.events.content import encode_canonical
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.events.seals.sealed_payload import get_box_key
from turnlog.projections.audit.record.erasure_reach import require_prompt_kept
from turnlog.projections.audit.record.event_queries import find_call
from turnlog.projections.audit.record.prompt_readback import list_referenced_blobs
from turnlog.projections.audit.verify.hash_chain import format_root, parse_digest
from turnlog.projections.audit.verify.merkle_tree import build_path, compute_tree_root
from turnlog.projections.audit.verify.prompt_reproduction import read_verified_request
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.command_handling.row_waits import refuse_future
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.command_handler import CommandHandler

TURN_EVENTS: Final = (
    *(TurnSubmitted, TurnQueued),
    *(TurnCompleted, TurnFailed, TurnCancelled, ReplyRedacted),
)
"""The events of a turn that belong to the proof of each of its calls."""


@dataclass(frozen=True, slots=True)
class CallProofs:
    """Proves calls."""

    command_handler: CommandHandler

    async def prove_call(
        self, tenant: str, session: str, call: str, sequence: int | None = None
    ) -> CallProofView:
        """Return the proof of a call among the first `sequence` events, by default among all.

        Raises `KeysErased` where words of its prompt were erased, and `Corrupt` where the request
        does not read back as the recorded one.
        """
        events = await self.command_handler.load_events(tenant, session)
        if sequence is not None:
            refuse_future(sequence, events[-1].sequence, "sequence")
        recorded, fixed = find_call(events, call)
        require_prompt_kept(recorded, fixed)
        if sequence is not None and sequence < recorded.sequence:
            detail = f"call {call} was made after event {sequence}"
            fix = "take a new checkpoint, or name a later sequence"
            raise Refused("not-covered", detail, field="sequence", fix=fix)
        records = SessionRecordLoader(self.command_handler)
        blobs = await records.load_blobs(tenant, list_referenced_blobs(fixed.manifest))
        return await run_in_thread(
            lambda: _build_proof(
                events[:sequence], fixed, read_verified_request(fixed, events, blobs)
            )
        )


def _build_proof(
    events: Sequence[RecordedEvent], fixed: ContextAssembled, request: ChatRequest
) -> CallProofView:
    own = [each for each in events if _is_part_of_call(each, fixed)]
    digests = [parse_digest(each.head.hash) for each in events]
    path = build_path(digests, [each.sequence - 1 for each in own])
    return CallProofView(
        session=events[-1].session,
        sequence=events[-1].sequence,
        hash=events[-1].head.hash,
        root=format_root(compute_tree_root(digests)),
        call=fixed.call,
        turn=fixed.turn,
        request=encode_canonical(request.encode_plain()),
        events=tuple(map(_build_proven_event, own)),
        path=tuple(node.hex() for node in path),
    )


def _build_proven_event(recorded: RecordedEvent) -> ProvenEvent:
    key = get_box_key(recorded.stored)
    return ProvenEvent(
        sequence=recorded.sequence,
        stored=recorded.stored.decode(),
        key=key.hex() if key else None,
    )


def _is_part_of_call(recorded: RecordedEvent, fixed: ContextAssembled) -> bool:
    event = recorded.event
    if isinstance(event, TURN_EVENTS):
        return event.turn == fixed.turn
    return getattr(event, "call", None) == fixed.call
