"""The use cases of erasures in the library: plan one, carry it out, and list what was erased."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnlog.contract.erasures.erasure_requests import EraseSourceRequest
from turnlog.contract.erasures.source_erasure_payloads import (
    SourceErasure,
    SourceErasureList,
    SourceErasureReceipt,
)
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.library.source_erasures import ERASABLE_FAMILIES, parse_erased_source
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.erasures.source_erasure_receipts import SourceErasureReceipts
from turnlog.services.erasures.source_erasure_service import SourceErasureService


@dataclass(frozen=True, slots=True)
class SourceErasureUseCases:
    """Handles requests for erasures in the library."""

    receipts: SourceErasureReceipts
    row_waits: RowWaits

    @property
    def service(self) -> SourceErasureService:
        """Erases texts of libraries."""
        return self.receipts.service

    async def erase(self, caller: Caller, request: EraseSourceRequest) -> SourceErasure:
        """Erase what a request names, and return the receipts; only the plan with `dry_run`."""
        source, tenant = parse_erased_source(request.source), caller.tenant
        await self._require_rows(tenant)
        if request.dry_run:
            plan = await self.service.plan_erasure(tenant, source, request.reason)
            receipts = [
                await self.receipts.build_receipt(tenant, source.family, plan.events, each)
                for each in plan.begun
            ]
            return SourceErasure(source=source.name, receipts=tuple(receipts))
        begun = await self.service.begin_erasure(caller, source, request.reason)
        for each in begun:
            with suppress(Refused, Unavailable):  # The receipt says what waits.
                await self.service.finish_erasure(tenant, source.family, each)
        done = await self.receipts.list_receipts(tenant, source.family, begun)
        return SourceErasure(source=source.name, receipts=tuple(done))

    async def list_erasures(self, tenant: str) -> SourceErasureList:
        """Return the receipts of all erasures in the library, after a checking pass."""
        await self._require_rows(tenant)
        found = list[SourceErasureReceipt]()
        for family in ERASABLE_FAMILIES:
            if await self.service.list_erasures(tenant, family):
                found += await self.receipts.list_receipts(tenant, family)
        return SourceErasureList(receipts=tuple(found))

    async def _require_rows(self, tenant: str) -> None:
        log = self.receipts.command_handler.log
        if await self.row_waits.measure_remaining_lag(log, tenant):
            raise Unavailable("read models", "they are behind, and know not every session")
