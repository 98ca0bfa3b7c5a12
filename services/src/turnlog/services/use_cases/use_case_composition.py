"""The one composition of all use cases, from the parts of a process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.model.override_events import OVERRIDE_FAMILY
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.store.ports import EventLog, TokenStream
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.read.row_lookups import CallLookup
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.alerts.alert_use_cases import AlertUseCases
from turnlog.services.approvals.approval_listing import ApprovalListing
from turnlog.services.approvals.approval_use_cases import ApprovalUseCases
from turnlog.services.audit.redactions import RedactionCache
from turnlog.services.audit.verify_pool import OpenVerifier, open_best_verifier
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.blueprints.blueprint_use_cases import BlueprintUseCases
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.erasures.erasure_use_cases import ErasureUseCases
from turnlog.services.erasures.source_erasure_receipts import SourceErasureReceipts
from turnlog.services.erasures.source_erasure_service import SourceErasureService
from turnlog.services.erasures.source_erasure_use_cases import SourceErasureUseCases
from turnlog.services.identity.access_key_service import AccessKeyService
from turnlog.services.identity.browser_tokens import BrowserTokens
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.keys.key_use_cases import KeyUseCases
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.knowledge.knowledge_use_cases import KnowledgeUseCases
from turnlog.services.media.media_use_cases import MediaUseCases
from turnlog.services.media.turn_parts import TurnPartsIntake
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.overrides.override_use_cases import OverrideUseCases
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_health import HealthCheck, HealthChecks
from turnlog.services.platform.process_settings import WebhookSettings
from turnlog.services.quotas.media_limit_service import MediaLimitService
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_use_cases import QuotaUseCases
from turnlog.services.reads.read_log import ReadLog
from turnlog.services.reads.read_use_cases import ReadUseCases
from turnlog.services.retention.due_erasures import DueErasures
from turnlog.services.retention.retention_guard import RetentionGuard
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.retention.retention_use_cases import RetentionUseCases
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.segments.segment_use_cases import SegmentUseCases
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.cut_replies import CutReplyReader
from turnlog.services.sessions.prompt_inputs import PromptInputLoader
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.tenants.open_turns import OpenTurnLimits, RowTurnCounter
from turnlog.services.tenants.tenant_use_cases import TenantUseCases
from turnlog.services.usage.usage_use_cases import UsageUseCases
from turnlog.services.use_cases.overview_feed import OverviewFeed
from turnlog.services.use_cases.overview_reading import OverviewReading
from turnlog.services.use_cases.prompts.call_reading import CallReading
from turnlog.services.use_cases.prompts.prompt_reading import PromptReading
from turnlog.services.use_cases.prompts.session_forecasts import SessionForecasts
from turnlog.services.use_cases.prompts.what_if_evaluation import WhatIfEvaluation
from turnlog.services.use_cases.prompts.window_previews import WindowPreviews
from turnlog.services.use_cases.quarantine import Quarantine
from turnlog.services.use_cases.readiness import Readiness
from turnlog.services.use_cases.record.call_explanations import CallExplanations
from turnlog.services.use_cases.record.call_proofs import CallProofs
from turnlog.services.use_cases.record.event_reading import EventReading, parse_event_names
from turnlog.services.use_cases.record.log_scan_slots import LogScanSlots
from turnlog.services.use_cases.record.record_verification import RecordVerification
from turnlog.services.use_cases.record.session_exports import SessionExports
from turnlog.services.use_cases.record.use_listing import UseListing
from turnlog.services.use_cases.sessions.blueprint_moves import BlueprintMoves
from turnlog.services.use_cases.sessions.session_forking import SessionForking
from turnlog.services.use_cases.sessions.session_memory import SessionMemory
from turnlog.services.use_cases.sessions.session_opening import (
    OpeningCommandBuilder,
    SessionOpening,
)
from turnlog.services.use_cases.sessions.session_reading import SessionReading, SessionRowWaits
from turnlog.services.use_cases.sessions.session_steering import SessionSteering
from turnlog.services.use_cases.turns.question_answering import QuestionAnswering
from turnlog.services.use_cases.turns.turn_history import TurnHistory
from turnlog.services.use_cases.turns.turn_submission import TurnSubmitter
from turnlog.services.use_cases.turns.turn_watching import TurnWatching
from turnlog.services.webhooks.webhook_service import WebhookService
from turnlog.services.webhooks.webhook_use_cases import WebhookUseCases


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCaseParts:
    """What use cases are made from; nothing but `build_use_cases` reads it."""

    command_handler: CommandHandler
    tokens: TokenStream
    max_part_bytes: int
    """Bytes of the largest picture, recording or file."""
    max_request_bytes: int
    """Bytes of the largest request, without those of the parts that it brings."""
    quotas: TurnQuotas
    media_limits: MediaLimitService
    """The limits of users, and what their turns reserve and use."""
    overrides: OverrideService
    """The users' own prompts."""
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
    access_keys: AccessKeyService
    """The keys of the installation."""
    tenants: TenantService
    """What each tenant may use."""
    browser_tokens: BrowserTokens | None = None
    """Those of the root key; None without one."""
    webhooks: WebhookService
    """The subscriptions to events, and how far each has got."""
    webhook_settings: WebhookSettings
    alerts: AlertService
    """The rules of alerts, and what became of each."""
    retention: RetentionService
    """The policies and holds of tenants."""
    reads: EventLog
    """The log of reads."""
    store: ReadModelStore
    """The store of the read models."""
    projection_signal: ProjectionSignal
    """Signalled by a projector that runs in this process, after each batch."""
    durability: Durability
    """What an acknowledgement by the event log guarantees."""
    default_model: str
    """The model of profiles that say `default`."""
    question_blueprint: str
    """The blueprint that answers questions."""
    prices: ModelPrices = field(default_factory=ModelPrices)
    health_checks: HealthChecks = field(default_factory=dict[str, HealthCheck])
    """What readiness checks of this process beside NATS, the database and the read models."""
    row_timeout: float = 5.0
    """Seconds to wait for the read models to reach a sequence."""
    record_watch: RecordWatch | None = None
    """Knows whether a message of the record is lost; it is told of holes that a reader met."""
    open_verifier: OpenVerifier = open_best_verifier
    """Creates the pool of processes that verify a log."""
    shutdown_event: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process shuts down, so that waiting callers are answered at once."""

    @property
    def library(self) -> EventLog:
        """The log of the library."""
        return self.segment_service.parts.log


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """Everything that can be asked of Turnlog; one object for all doors of a process."""

    opening: SessionOpening
    sessions: SessionReading
    forking: SessionForking
    steering: SessionSteering
    erasures: ErasureUseCases
    retention: RetentionUseCases
    source_erasures: SourceErasureUseCases
    memory: SessionMemory
    moves: BlueprintMoves
    submission: TurnSubmitter
    turns: TurnWatching
    history: TurnHistory
    questions: QuestionAnswering
    approvals: ApprovalUseCases
    approval_listing: ApprovalListing
    events: EventReading
    exports: SessionExports
    verification: RecordVerification
    explanations: CallExplanations
    proofs: CallProofs
    prompts: PromptReading
    previews: WindowPreviews
    calls: CallReading
    what_if: WhatIfEvaluation
    forecasts: SessionForecasts
    media: MediaUseCases
    blueprints: BlueprintUseCases
    segments: SegmentUseCases
    knowledge: KnowledgeUseCases
    access_keys: KeyUseCases
    tenants: TenantUseCases
    overrides: OverrideUseCases
    quotas: QuotaUseCases
    webhooks: WebhookUseCases
    alerts: AlertUseCases
    reads: ReadUseCases
    usage: UsageUseCases
    overview: OverviewFeed
    uses: UseListing
    quarantine: Quarantine
    readiness: Readiness


def build_use_cases(parts: UseCaseParts) -> UseCases:
    """Return the use cases that work with these parts."""
    return _UseCaseBuilder(parts).build()


class _UseCaseBuilder:
    """Builds use cases; what several of them share is built once."""

    def __init__(self, parts: UseCaseParts) -> None:
        self.parts = parts
        self.handler = parts.command_handler
        self.row_waits = RowWaits(parts.store, parts.projection_signal, parts.row_timeout)
        self.session_row_waits = SessionRowWaits(self.handler, self.row_waits)
        self.time_travel = TimeTravel(
            self.handler, parts.blueprints, parts.prompt_inputs, CallLookup(parts.store)
        )
        self.opening_commands = OpeningCommandBuilder(
            parts.blueprint_folders, parts.default_model, parts.tenants
        )
        self.opening = SessionOpening(self.time_travel, parts.blueprints, self.opening_commands)
        self.cut_replies = CutReplyReader(parts.blueprints, parts.tokens)
        self.submission = TurnSubmitter(
            command_handler=self.handler,
            blueprints=parts.blueprints,
            overrides=parts.overrides,
            default_model=parts.default_model,
            tenants=parts.tenants,
            open_turns=OpenTurnLimits(RowTurnCounter(parts.store)),
            dialects=parts.prompt_inputs.dialects,
            intake=TurnPartsIntake(
                store=self.handler.texts.media.store, most_bytes=parts.max_part_bytes
            ),
            most_bytes=parts.max_request_bytes,
            cut_replies=self.cut_replies,
        )
        self.turns = TurnWatching(self.handler, parts.tokens, parts.shutdown_event)
        self.alerts = AlertUseCases(parts.alerts)
        self.retention_guard = RetentionGuard(self.handler, parts.retention)
        self.erasures = ErasureService(
            command_handler=self.handler,
            store=parts.store,
            projection_signal=parts.projection_signal,
            guard=self.retention_guard,
        )
        self.redactions = RedactionCache()
        self.log_scan_slots = LogScanSlots()

    def build(self) -> UseCases:
        parts, handler, travel = self.parts, self.handler, self.time_travel
        return UseCases(
            opening=self.opening,
            sessions=SessionReading(travel, parts.store, self.session_row_waits),
            forking=SessionForking(travel),
            steering=self._build_steering(),
            erasures=ErasureUseCases(self.erasures, self.row_waits, self._build_source_erasures()),
            retention=self._build_retention(),
            source_erasures=self._build_source_erasures(),
            memory=SessionMemory(handler, parts.blueprints),
            moves=BlueprintMoves(travel, parts.blueprints, parts.blueprint_folders),
            submission=self.submission,
            turns=self.turns,
            history=TurnHistory(travel),
            questions=self._build_questions(),
            approvals=ApprovalUseCases(handler, parts.blueprints),
            approval_listing=ApprovalListing(handler, parts.store),
            events=EventReading(handler, parts.tokens, self.redactions),
            exports=SessionExports(handler, self.redactions, parts.library),
            verification=self._build_verification(),
            explanations=CallExplanations(travel, parts.library),
            proofs=CallProofs(handler),
            prompts=PromptReading(travel),
            previews=self._build_previews(),
            calls=CallReading(travel, parts.blueprints, parts.store, self.session_row_waits),
            what_if=self._build_what_if(),
            forecasts=SessionForecasts(
                time_travel=travel, store=parts.store, default_model=parts.default_model
            ),
            media=MediaUseCases(store=handler.texts.media.store, most_bytes=parts.max_part_bytes),
            blueprints=BlueprintUseCases(parts.blueprint_folders, parts.store),
            segments=SegmentUseCases(
                parts.segment_service, parts.store, self.row_waits, handler.texts
            ),
            knowledge=KnowledgeUseCases(
                parts.knowledge_service, parts.knowledge_search, parts.store, self.row_waits
            ),
            access_keys=KeyUseCases(parts.access_keys, parts.command_handler, parts.browser_tokens),
            tenants=TenantUseCases(parts.tenants, parts.access_keys),
            overrides=OverrideUseCases(parts.overrides, parts.blueprint_folders, handler.texts),
            quotas=QuotaUseCases(parts.quotas, parts.media_limits),
            webhooks=WebhookUseCases(
                service=parts.webhooks,
                log=handler.log,
                alerts=parts.alerts.alerts,
                settings=parts.webhook_settings,
                parse_names=parse_event_names,
            ),
            alerts=self.alerts,
            reads=self._build_reads(),
            usage=UsageUseCases(parts.store, parts.prices),
            overview=OverviewFeed(
                OverviewReading(handler, parts.store, self.alerts), parts.projection_signal
            ),
            uses=UseListing(handler.log, parts.library, parts.store, self.row_waits),
            quarantine=Quarantine(handler, parts.store, parts.projection_signal),
            readiness=self._build_readiness(),
        )

    def _build_source_erasures(self) -> SourceErasureUseCases:
        parts = self.parts
        sealing = self.handler.sealing
        service = SourceErasureService(
            library=parts.library,
            keys=sealing.keys if sealing else None,
            histories={
                KNOWLEDGE_FAMILY: parts.knowledge_service.history,
                SEGMENT_FAMILY: parts.segment_service.history,
                OVERRIDE_FAMILY: parts.overrides.history,
            },
            store=parts.store,
            projection_signal=parts.projection_signal,
            guard=self.retention_guard,
        )
        receipts = SourceErasureReceipts(service=service, command_handler=self.handler)
        return SourceErasureUseCases(receipts, self.row_waits)

    def _build_retention(self) -> RetentionUseCases:
        return RetentionUseCases(
            due=DueErasures(erasures=self.erasures, guard=self.retention_guard),
            blueprint_folders=self.parts.blueprint_folders,
            row_waits=self.row_waits,
        )

    def _build_steering(self) -> SessionSteering:
        return SessionSteering(
            command_handler=self.handler,
            blueprints=self.parts.blueprints,
            cut_replies=self.cut_replies,
            tenants=self.parts.tenants,
            default_model=self.parts.default_model,
        )

    def _build_questions(self) -> QuestionAnswering:
        return QuestionAnswering(
            opening=self.opening,
            submission=self.submission,
            watching=self.turns,
            blueprint_folders=self.parts.blueprint_folders,
            blueprint=self.parts.question_blueprint,
            grace=self.parts.row_timeout,
        )

    def _build_previews(self) -> WindowPreviews:
        return WindowPreviews(
            time_travel=self.time_travel,
            blueprints=self.parts.blueprints,
            opening_commands=self.opening_commands,
            overrides=self.parts.overrides,
            prices=self.parts.prices,
            intake=self.submission.intake,
        )

    def _build_reads(self) -> ReadUseCases:
        return ReadUseCases(
            ReadLog(
                log=self.parts.reads,
                clock=self.handler.clock,
                create_id=self.handler.create_id,
                source=self.handler.source,
            )
        )

    def _build_verification(self) -> RecordVerification:
        return RecordVerification(
            command_handler=self.handler,
            library=self.parts.library,
            alerts=self.parts.alerts.alerts,
            reads=self.parts.reads,
            store=self.parts.store,
            projection_signal=self.parts.projection_signal,
            log_scan_slots=self.log_scan_slots,
            record_watch=self.parts.record_watch,
            open_verifier=self.parts.open_verifier,
        )

    def _build_what_if(self) -> WhatIfEvaluation:
        return WhatIfEvaluation(
            command_handler=self.handler,
            blueprint_folders=self.parts.blueprint_folders,
            store=self.parts.store,
            row_waits=self.row_waits,
            response_formats=self.parts.prompt_inputs.response_formats,
            dialects=self.parts.prompt_inputs.dialects,
            prices=self.parts.prices,
            log_scan_slots=self.log_scan_slots,
            default_model=self.parts.default_model,
        )

    def _build_readiness(self) -> Readiness:
        return Readiness(
            log=self.handler.log,
            store=self.parts.store,
            durability=self.parts.durability,
            shutdown_event=self.parts.shutdown_event,
            health_checks=self.parts.health_checks,
        )
