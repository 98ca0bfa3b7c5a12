"""The use cases of erasures: plan one, carry it out, and read what was erased."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnlog.contract.erasures.erasure_payloads import (
    ErasureList,
    ErasureProof,
    ErasureReceipt,
    SkippedSession,
    UserErasure,
)
from turnlog.contract.erasures.erasure_requests import (
    EraseRequest,
    EraseSourceRequest,
    EraseUserRequest,
)
from turnlog.contract.erasures.source_erasure_payloads import SourceErasureReceipt
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.redaction_events import ErasedTurn, ErasureBegun
from turnlog.projections.store.read.erasure_queries import list_sessions_of_user
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.erasures.erasure_proofs import ErasureProofs
from turnlog.services.erasures.erasure_receipts import ErasureReceipts
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.erasures.erasure_tracing import ErasureTarget, list_turns_of_user
from turnlog.services.erasures.source_erasure_use_cases import SourceErasureUseCases
from turnlog.services.seals.known_names import list_known_names


@dataclass(frozen=True, slots=True)
class ErasureUseCases:
    """Handles requests for erasures."""

    service: ErasureService
    row_waits: RowWaits
    sources: SourceErasureUseCases
    """Erases the own prompts of users."""

    @property
    def receipts(self) -> ErasureReceipts:
        """Makes receipts."""
        return ErasureReceipts(self.service)

    async def erase(self, caller: Caller, session: str, request: EraseRequest) -> ErasureReceipt:
        """Erase what a request names, and return the receipt; only the plan with `dry_run`.

        Where something keeps a part of it from ending, the receipt says how far it is, and it goes
        on by itself.
        """
        turns = (ErasedTurn(turn=request.turn, of=request.of),) if request.turn else ()
        target = ErasureTarget(
            tenant=caller.tenant,
            session=session,
            turns=turns,
            with_replies=request.with_replies,
        )
        return await self._erase_target(caller, target, request)

    async def erase_user(self, caller: Caller, request: EraseUserRequest) -> UserErasure:
        """Erase all sessions and own prompts of a user, and the turns the user asked in others.

        Sessions in which it cannot be done are named with the reason; the request can be repeated.
        """
        receipts: list[ErasureReceipt] = []
        skipped: list[SkippedSession] = []
        for target in await self._list_targets(caller.tenant, request):
            try:
                receipts.append(await self._erase_target(caller, target, request))
            except Refused as refused:
                if refused.code != "already-erased":
                    skipped.append(_build_skipped(target.session, refused))
        source = f"overrides:{request.user}"
        form = EraseSourceRequest(source=source, reason=request.reason, dry_run=request.dry_run)
        sources: tuple[SourceErasureReceipt, ...] = ()
        try:
            sources = (await self.sources.erase(caller, form)).receipts
        except Refused as refused:
            if refused.code not in {"not-in-library", "already-erased"}:
                skipped.append(_build_skipped(source, refused))
        return UserErasure(
            user=request.user, receipts=tuple(receipts), skipped=tuple(skipped), sources=sources
        )

    async def _erase_target(
        self, caller: Caller, target: ErasureTarget, request: EraseRequest | EraseUserRequest
    ) -> ErasureReceipt:
        if request.dry_run:
            return await self.receipts.build_plan(target, request.reason)
        begun = await self.service.begin_erasure(caller, target, request.reason)
        with suppress(Refused, Unavailable):  # The receipt says what waits.
            await self.service.finish_erasure(target.tenant, target.session, begun)
        return await self.receipts.build_receipt(target.tenant, target.session, begun)

    async def _list_targets(self, tenant: str, request: EraseUserRequest) -> list[ErasureTarget]:
        """Return what is erased of each session; what a fork has copied goes with its origin."""
        targets: list[ErasureTarget] = []
        handler = self.service.command_handler
        if await self.row_waits.measure_remaining_lag(handler.log, tenant):
            raise Unavailable("read models", "they are behind, and know not every session")
        keys = handler.sealing.keys if handler.sealing else None
        names = await list_known_names(keys, tenant, request.user)
        async with self.service.store.open_reader() as connection:
            sessions = await list_sessions_of_user(connection, tenant, names)
        for session in sessions:
            state = await handler.require_state(tenant, session)
            asked: list[int] = []
            if state.owner not in names:
                events = await handler.load_events(tenant, session)
                asked = sorted(list_turns_of_user(events, names))
            if state.owner in names or asked:
                turns = tuple(ErasedTurn(turn=turn, of="turn") for turn in asked)
                targets.append(
                    ErasureTarget(
                        tenant=tenant,
                        session=session,
                        turns=turns,
                        with_replies=request.with_replies,
                    )
                )
        return targets

    async def list_erasures(self, tenant: str, session: str) -> ErasureList:
        """Return the receipts of all erasures of a session."""
        events = await self.service.command_handler.load_events(tenant, session)
        begun = [each.sequence for each in events if isinstance(each.event, ErasureBegun)]
        receipts = [await self.receipts.build_receipt(tenant, session, each) for each in begun]
        return ErasureList(session=session, erasures=tuple(receipts))

    async def read_erasure(self, tenant: str, session: str, sequence: int) -> ErasureReceipt:
        """Return the receipt of one erasure, after a checking pass of its own."""
        return await self.receipts.build_receipt(tenant, session, sequence)

    async def prove_erasure(
        self, tenant: str, session: str, sequence: int, *, with_keys: bool
    ) -> ErasureProof:
        """Return what can be shown of an erasure; refuse one that has not ended."""
        proofs = ErasureProofs(self.receipts)
        return await proofs.prove_erasure(tenant, session, sequence, with_keys=with_keys)


def _build_skipped(session: str, refused: Refused) -> SkippedSession:
    return SkippedSession(session=session, code=refused.code, detail=refused.detail)
