"""The use cases of erasures: plan one, carry it out, and read what was erased."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnlog.contract.session_payloads import ErasureList, ErasureReceipt
from turnlog.contract.session_requests import EraseRequest
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.redaction_events import ErasedTurn, ErasureBegun
from turnlog.services.command_handling.callers import Caller
from turnlog.services.erasures.erasure_receipts import ErasureReceipts
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.erasures.erasure_tracing import ErasureTarget


@dataclass(frozen=True, slots=True)
class ErasureUseCases:
    """Handles requests for erasures."""

    service: ErasureService

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
        if request.dry_run:
            return await self.receipts.build_plan(target, request.reason)
        begun = await self.service.begin_erasure(caller, target, request.reason)
        with suppress(Refused, Unavailable):  # The receipt says what waits.
            await self.service.finish_erasure(caller.tenant, session, begun)
        return await self.receipts.build_receipt(caller.tenant, session, begun)

    async def list_erasures(self, tenant: str, session: str) -> ErasureList:
        """Return the receipts of all erasures of a session."""
        events = await self.service.command_handler.load_events(tenant, session)
        begun = [each.sequence for each in events if isinstance(each.event, ErasureBegun)]
        receipts = [await self.receipts.build_receipt(tenant, session, each) for each in begun]
        return ErasureList(session=session, erasures=tuple(receipts))

    async def read_erasure(self, tenant: str, session: str, sequence: int) -> ErasureReceipt:
        """Return the receipt of one erasure, after a checking pass of its own."""
        return await self.receipts.build_receipt(tenant, session, sequence)
