"""The dependencies that route handlers work with, and the slots for scans of a whole log.

`main` creates one `GatewayDependencies` and attaches it to the application. The tenant is never
read from a header: until requests carry credentials it is the configured one. Only this module
knows that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from turnlog.events.errors import Refused
from turnlog.events.store.ports import EventLog, TokenStream
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.read.row_lookups import CallLookup
from turnlog.services.audit.explain_service import ExplainService
from turnlog.services.audit.redactions import RedactionCache
from turnlog.services.audit.verify_pool import OpenVerifier, open_best_verifier
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.blueprints.model_prices import ModelPrices
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_health import HealthCheck, HealthChecks
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.telemetry.traces import Tracing
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader
from turnlog.services.sessions.time_travel import TimeTravel

MAX_LOG_SCANS: Final = 2
"""How many requests may scan a whole log at the same time; each keeps one processor busy."""


@dataclass(frozen=True, slots=True)
class GatewayDependencies:
    """The dependencies of all route handlers; one object for all requests of a gateway."""

    settings: GatewaySettings
    log: EventLog
    tokens: TokenStream
    command_handler: CommandHandler
    quotas: TurnQuotas
    overrides: OverrideService
    """The users' own prompts."""
    """The limits of users, and what their turns reserve and use."""
    segment_service: SegmentService
    """The event-sourced segment library."""
    knowledge_service: KnowledgeService
    """The event-sourced collections of cases and documents."""
    knowledge_search: KnowledgeSearch
    """The search of their index."""
    prompt_inputs: PromptInputLoader
    """Loads the inputs and the segments of calls."""
    blueprints: BlueprintStore
    blueprint_folders: BlueprintFolders
    store: ReadModelStore
    """The store of the read models."""
    projection_signal: ProjectionSignal
    """Signalled by a projector that runs in this process, after each batch."""
    tracing: Tracing
    durability: Durability
    """What an acknowledgement by the event log guarantees."""
    prices: ModelPrices = field(default_factory=ModelPrices)
    health_checks: HealthChecks = field(default_factory=dict[str, HealthCheck])
    """What `/readyz` checks of this process beside NATS, the database and the read models."""
    read_model_timeout: float = 5.0
    """Seconds to wait for the read models to reach a sequence."""
    log_scan_slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_LOG_SCANS)
    )
    """Held by requests that scan a whole log."""
    explanation_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the request that loads much of a session to explain a call, to bound memory."""
    open_verifier: OpenVerifier = open_best_verifier
    """Creates the pool of processes that verify a log."""
    record_watch: RecordWatch | None = None
    """Knows whether a message of the record is lost; it is told of holes that a reader met."""
    redactions: RedactionCache = field(default_factory=RedactionCache)
    """The redactions that decide what readers of all sessions get."""
    shutdown_event: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway shuts down, so that waiting requests are answered at once."""

    @property
    def time_travel(self) -> TimeTravel:
        """The reader of sessions as they were at an earlier sequence."""
        return TimeTravel(
            self.command_handler, self.blueprints, self.prompt_inputs, CallLookup(self.store)
        )

    def create_explainer(self, tenant: str) -> ExplainService:
        """Return the service that explains the calls of a tenant."""
        return ExplainService(self.time_travel, tenant, self.explanation_lock)


async def get_dependencies(request: Request) -> GatewayDependencies:
    """Return the dependencies attached to the application of a request."""
    return cast("GatewayDependencies", request.app.state.dependencies)


Dependencies = Annotated[GatewayDependencies, Depends(get_dependencies)]


async def get_tenant(deps: Dependencies) -> str:
    """Return the tenant of a request."""
    return deps.settings.tenant


RequestTenant = Annotated[str, Depends(get_tenant)]


def check_log_scan_slot(deps: GatewayDependencies) -> None:
    """Raise `Refused` `busy` when every log scan slot is taken.

    The request is refused at once instead of queued, because the waiting time cannot be estimated.
    """
    if deps.log_scan_slots.locked():
        detail = f"{MAX_LOG_SCANS} requests are already scanning a log"
        raise Refused("busy", detail, fix="retry when one of them has finished")


async def stream_in_log_scan_slot(
    deps: GatewayDependencies, lines: AsyncGenerator[bytes]
) -> AsyncGenerator[bytes]:
    """Yield the lines of a log scan while holding a slot."""
    async with deps.log_scan_slots, aclosing(lines):
        async for line in lines:
            yield line
