"""The desk: what every handler has at hand, and how it gets hold of it.

One desk is made where the process is put together and hangs on the application. A tenant is
never read from a header: until requests carry credentials it is the one the gateway was
configured with, but nothing behind this module knows that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from turnlog.events.log.ports import Log, TokenStream
from turnlog.projections.store.engine import Store
from turnlog.projections.store.fixed import FoldedCalls
from turnlog.projections.store.reach import Bell
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.durability import Durability
from turnlog.services.runtime.explaining import Explaining
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.past import Past
from turnlog.services.runtime.prices import ShippedPrices
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.settings import GatewaySettings
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.telemetry import Tracing
from turnlog.services.runtime.verifiers import Verifiers, as_many_as_help

FEW: Final = 2
"""Requests at a time that go through a whole log: each has a processor to itself for long."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What handlers work with; one for all requests of a gateway."""

    settings: GatewaySettings
    log: Log
    tokens: TokenStream
    sessions: Sessions
    shelves: Shelves
    """The library's segments."""
    gathering: Gathering
    """What gives calls their inputs and segments."""
    blueprints: BlueprintStore
    library: Library
    store: Store
    """The read models."""
    bell: Bell
    """Rung where the projector runs in this process too."""
    tracing: Tracing
    durability: Durability
    """What an acknowledgement of the log means."""
    prices: ShippedPrices = field(default_factory=ShippedPrices)
    patience: float = 5.0
    """Seconds the read models are given to come to a sequence."""
    few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FEW))
    """Held by whoever goes through a whole log."""
    whole: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever explains a call by much of its session: that takes memory."""
    verifiers: Verifiers = as_many_as_help
    """Gives who verifies a log."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when whoever waits for something must be answered now, since the gateway ends."""

    @property
    def past(self) -> Past:
        """What reads sessions as they were."""
        return Past(self.sessions, self.blueprints, self.gathering, FoldedCalls(self.store))

    def explaining(self, tenant: str) -> Explaining:
        """Give what explains a tenant's calls."""
        return Explaining(self.past, tenant, self.whole)


async def desk_of(request: Request) -> Desk:
    """Give the desk of the application a request came to."""
    return cast("Desk", request.app.state.desk)


AtDesk = Annotated[Desk, Depends(desk_of)]


async def tenant_of(desk: AtDesk) -> str:
    """Give the tenant a request speaks for."""
    return desk.settings.tenant


Tenant = Annotated[str, Depends(tenant_of)]
