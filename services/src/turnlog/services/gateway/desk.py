"""The dependencies that route handlers work with, and the slots for scans of a whole log.

`main` creates one `GatewayDependencies` and attaches it to the application. The tenant is never
read from a header: until requests carry credentials it is the configured one. Only this module
knows that.
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
"""How many requests may scan a whole log at the same time; each keeps one processor busy."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The dependencies of all route handlers; one object for all requests of a gateway."""

    settings: GatewaySettings
    log: Log
    tokens: TokenStream
    sessions: Sessions
    shelves: Shelves
    """The event-sourced segment library."""
    gathering: Gathering
    """Loads the inputs and the segments of calls."""
    blueprints: BlueprintStore
    library: Library
    store: Store
    """The store of the read models."""
    bell: Bell
    """Signalled by a projector that runs in this process, after each batch."""
    tracing: Tracing
    durability: Durability
    """What an acknowledgement by the event log guarantees."""
    prices: ShippedPrices = field(default_factory=ShippedPrices)
    patience: float = 5.0
    """Seconds to wait for the read models to reach a sequence."""
    few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FEW))
    """Held by requests that scan a whole log."""
    whole: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the request that loads much of a session to explain a call, to bound memory."""
    verifiers: Verifiers = as_many_as_help
    """Creates the pool of processes that verify a log."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway shuts down, so that waiting requests are answered at once."""

    @property
    def past(self) -> Past:
        """The reader of sessions as they were at an earlier sequence."""
        return Past(self.sessions, self.blueprints, self.gathering, FoldedCalls(self.store))

    def explaining(self, tenant: str) -> Explaining:
        """Return the service that explains the calls of a tenant."""
        return Explaining(self.past, tenant, self.whole)


async def desk_of(request: Request) -> Desk:
    """Return the dependencies attached to the application of a request."""
    return cast("Desk", request.app.state.desk)


AtDesk = Annotated[Desk, Depends(desk_of)]


async def tenant_of(desk: AtDesk) -> str:
    """Return the tenant of a request."""
    return desk.settings.tenant


Tenant = Annotated[str, Depends(tenant_of)]
