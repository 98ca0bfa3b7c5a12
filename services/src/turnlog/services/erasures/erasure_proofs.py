"""Proofs of erasures: the receipt, with what a stranger can hold it against.

That is the end of each session's chain, the ids of all that was reached, and a list of the keys
that are left. The digest of this list was recorded when keys were removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnlog.contract.erasures.erasure_payloads import (
    ChainPlace,
    ErasedSessionView,
    ErasureProof,
    ErasureProofPart,
    KeptKeyView,
    ReachedEvent,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ContentErased
from turnlog.events.seals.kept_keys import KeptKey, compute_kept_digest
from turnlog.events.seals.key_tree import get_work_leaf
from turnlog.services.erasures.erasure_receipts import ErasureReceipts
from turnlog.services.erasures.erasure_tracing import find_last_turn


@dataclass(frozen=True, slots=True)
class ErasureProofs:
    """Proves erasures."""

    receipts: ErasureReceipts

    async def prove_erasure(
        self, tenant: str, session: str, begun: int, *, with_keys: bool
    ) -> ErasureProof:
        """Return the proof of an erasure; refuse one that has not ended, or left something."""
        receipt = await self.receipts.build_receipt(tenant, session, begun)
        if receipt.status != "erased":
            detail = f"the erasure that event {begun} began is {receipt.status}"
            fix = "see `turnlog erasures` for what it waits for"
            raise Refused("not-erased", detail, field="sequence", fix=fix)
        parts = [
            await self._prove_part(tenant, each, with_keys=with_keys) for each in receipt.sessions
        ]
        return ErasureProof(tenant=tenant, receipt=receipt, parts=tuple(parts))

    async def _prove_part(
        self, tenant: str, reached: ErasedSessionView, *, with_keys: bool
    ) -> ErasureProofPart:
        service = self.receipts.service
        events = await service.command_handler.load_events(tenant, reached.session)
        named = frozenset(reached.events)
        noted, kept = await self._list_kept(tenant, reached.session, events)
        end = get_work_leaf(find_last_turn(events, noted.begun)) + 1 if noted and with_keys else 0
        return ErasureProofPart(
            session=reached.session,
            head=_build_place(events[-1]),
            before=_find_before(events, reached.begun or 1),
            events=tuple(_build_reached(each) for each in events if each.sequence in named),
            keys_left=noted.keys_left if noted else None,
            keys=tuple(_build_kept(each, end) for each in kept),
        )

    async def _list_kept(
        self, tenant: str, session: str, events: Sequence[RecordedEvent]
    ) -> tuple[ContentErased | None, Sequence[KeptKey]]:
        """Return the event that has the digest of what is left now, and what that is."""
        keys = self.receipts.service.require_keys(session)
        for ended in _iterate_noted(events):
            last_turn = find_last_turn(events, ended.begun)
            kept = await keys.list_kept_keys(tenant, session, last_turn)
            if compute_kept_digest(kept) == ended.keys_left:
                return ended, kept
        return None, ()


def _iterate_noted(events: Sequence[RecordedEvent]) -> Iterator[ContentErased]:
    """Yield the ends of erasures, the last one first; of two at once either may be the later."""
    for each in reversed(events):
        if isinstance(each.event, ContentErased) and each.event.keys_left:
            yield each.event


def _find_before(events: Sequence[RecordedEvent], begun: int) -> ChainPlace | None:
    """Return the event before the batch with a sequence."""
    batch = next(
        each
        for each in reversed(events[:begun])
        if each.envelope.prevstreamseq is not None or each.sequence == 1
    )
    return _build_place(events[batch.sequence - 2]) if batch.sequence > 1 else None


def _build_place(recorded: RecordedEvent) -> ChainPlace:
    return ChainPlace(sequence=recorded.sequence, hash=recorded.head.hash)


def _build_reached(recorded: RecordedEvent) -> ReachedEvent:
    envelope = recorded.envelope
    return ReachedEvent(sequence=envelope.sequence, id=envelope.id, type=envelope.type)


def _build_kept(kept: KeptKey, end: int) -> KeptKeyView:
    """Return a key as it is shown; secret unless all of its leaves come before `end`."""
    is_shown = kept.leaves.stop <= end
    return KeptKeyView(
        first=kept.leaves.start,
        last=kept.leaves.stop - 1,
        hash=kept.hash,
        key=kept.node.hex() if is_shown else None,
    )
