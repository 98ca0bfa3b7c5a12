"""Receipts of erasures in the library.

A receipt is made from the log each time. Its checking pass reads the keys anew, and tries to open
every event that is under one of those that are gone: of the library, and of the sessions that had
the text in a prompt or a retrieval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract.erasures.source_erasure_payloads import (
    ReachedSessionView,
    SourceErasureReceipt,
)
from turnlog.contract.value_names import ErasureStatus
from turnlog.events.codec import decode_library_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun
from turnlog.events.seals.leaf_sets import parse_leaf_runs
from turnlog.projections.audit.record.erasure_reach import find_reach, is_closed, is_under
from turnlog.services.erasures.erasure_receipts import KEPT_ELSEWHERE
from turnlog.services.erasures.source_erasure_service import SourceErasureService, find_end
from turnlog.services.sessions.command_handler import CommandHandler

KEPT_OF_SOURCES: Final = (
    *KEPT_ELSEWHERE,
    "replies, and texts that people copied: they may repeat the words",
    "plain sessions: titles and digests of what they retrieved",
)
"""What no erasure in the library can reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceErasureReceipts:
    """Makes receipts of erasures in the library."""

    service: SourceErasureService
    command_handler: CommandHandler

    async def list_receipts(
        self, tenant: str, family: str, only: Iterable[int] | None = None
    ) -> list[SourceErasureReceipt]:
        """Return the receipts of a family's erasures, or only of those begun by some events."""
        events = await self.service.read_anew(tenant, family)
        wanted = None if only is None else frozenset(only)
        receipts = list[SourceErasureReceipt]()
        for recorded in events:
            event = decode_library_event(recorded)
            if isinstance(event, SourceErasureBegun) and (
                wanted is None or recorded.sequence in wanted
            ):
                receipts.append(
                    await self.build_receipt(
                        tenant=tenant, family=family, events=events, event=event, recorded=recorded
                    )
                )
        return receipts

    async def build_receipt(
        self,
        tenant: str,
        family: str,
        events: Sequence[RecordedEvent],
        event: SourceErasureBegun,
        recorded: RecordedEvent | None = None,
    ) -> SourceErasureReceipt:
        """Return the receipt of an erasure that was begun by an event, or of a plan."""
        end = find_end(events, recorded.sequence) if recorded else None
        erased = decode_library_event(end) if end else None
        done = erased if isinstance(erased, SourceErased) else None
        leaves = parse_leaf_runs(event.leaves) or {}
        reached = [each for each in events if is_under(each, leaves)]
        left = [each.sequence for each in reached if done and not is_closed(each)]
        sessions = await self._trace_sessions(tenant, event, events, is_done=bool(done))
        status: ErasureStatus = "erased" if end else "begun"
        if left or any(each.left for each in sessions):
            status = "incomplete"
        return SourceErasureReceipt(
            family=family,
            source=event.source,
            erasure=recorded.sequence if recorded else None,
            ended=end.sequence if end else None,
            ended_at=end.envelope.time if end else None,
            at=recorded.envelope.time if recorded else None,
            by=recorded.envelope.actor if recorded else None,
            reason=event.reason,
            status=status if recorded else "planned",
            leaves=event.leaves,
            entries=event.entries,
            events=tuple(each.sequence for each in reached),
            left=tuple(left),
            sessions=tuple(sessions),
            generation=done.generation if done else None,
            record_before=done.record_before if done else None,
            record_after=done.record_after if done else None,
            kept_elsewhere=KEPT_OF_SOURCES,
        )

    async def _trace_sessions(
        self,
        tenant: str,
        event: SourceErasureBegun,
        events: Sequence[RecordedEvent],
        *,
        is_done: bool,
    ) -> list[ReachedSessionView]:
        """Return what of each session is under the keys, as its own log says."""
        sessions = await self.service.list_reached(tenant, event, events)
        views = [
            await self._trace_session(tenant, each, event.leaves, is_done=is_done)
            for each in sessions
        ]
        return [each for each in views if each.events]

    async def _trace_session(
        self, tenant: str, session: str, leaves: str, *, is_done: bool
    ) -> ReachedSessionView:
        events = await self.command_handler.load_events(tenant, session)
        found = find_reach(events, leaves)
        under = frozenset(found.events)
        left = (each.sequence for each in events if each.sequence in under and not is_closed(each))
        return ReachedSessionView(
            session=session,
            events=found.events,
            calls=found.calls,
            repeating_turns=found.turns,
            left=tuple(left) if is_done else (),
        )
