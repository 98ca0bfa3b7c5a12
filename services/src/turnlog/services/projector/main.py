"""The projector process: builds the projectors from their components and runs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from turnlog.events.seals.written_events import WrittenEvents
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.integrity.folded_positions import answer_position_requests
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.knowledge.index_service import IndexedKnowledge, require_sound_index
from turnlog.services.knowledge.nats_search import answer_searches
from turnlog.services.platform.clock import read_clock
from turnlog.services.platform.process_health import HealthChecks, serve_health
from turnlog.services.platform.process_settings import ProjectorSettings
from turnlog.services.platform.secret_masking import hide_credentials
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.platform.telemetry.traces import Tracing
from turnlog.services.process_components import ProcessComponents, connect_components
from turnlog.services.projector.hourly_sums import HourlySums
from turnlog.services.projector.knowledge_projector import KnowledgeProjector
from turnlog.services.projector.lag_measurement import run_lag_measurement
from turnlog.services.projector.log_fold import LogFolder
from turnlog.services.projector.record_scrub import RecordScrub
from turnlog.services.projector.segment_projector import SegmentProjector
from turnlog.services.projector.session_projector import SessionProjector
from turnlog.services.projector.webhook_delivery import run_webhooks

_log = structlog.get_logger("turnlog.projector")


def build_projector(
    settings: ProjectorSettings,
    *,
    log: EventLog,
    store: ReadModelStore,
    signal: ProjectionSignal,
    tracing: Tracing,
) -> SessionProjector:
    """Return a projector; the caller opens and closes log and store."""
    return SessionProjector(
        LogFolder(log=log, store=store, tracing=tracing, tenant=settings.tenant), signal
    )


@asynccontextmanager
async def run_projector(
    settings: ProjectorSettings,
    ending: Shutdown,
    signal: ProjectionSignal,
    *,
    is_alone: bool = False,
    written: WrittenEvents | None = None,
) -> AsyncGenerator[None]:
    """Keep the read models up to date and deliver to webhooks while the body runs.

    A log that does not match the rows ends the process. Without another projector, which
    `is_alone` says, webhooks are delivered at once after a process that was killed. `written` are
    the events that other roles of this process seal.
    """
    async with connect_components(settings, "projector", ending, written=written) as parts:
        store = open_store(settings.database_url.get_secret_value())
        projector = build_projector(
            settings, log=parts.log, store=store, signal=signal, tracing=parts.tracing
        )
        library = SegmentProjector(
            log=parts.library, blobs=parts.blobs, store=store, tenant=settings.tenant, signal=signal
        )
        embedder = CheckedEmbedder(setting=settings.embedder)
        knowledge = KnowledgeProjector(
            log=parts.library,
            blobs=parts.blobs,
            store=store,
            tenant=settings.tenant,
            signal=signal,
            embedder=embedder,
        )
        alerts = _create_alert_evaluator(settings, parts, store)
        record, scrub = RecordWatch(parts.connection), _create_scrub(parts)
        health_checks = _create_health_checks(settings, parts, store, record)
        try:
            async with (
                ending.run_part("projector", projector.run()),
                ending.run_part("growth", HourlySums(store).run()),
                ending.run_part("alerts", alerts.run()),
                ending.run_part("library", library.run()),
                ending.run_part("knowledge", knowledge.run()),
                ending.run_part("record", scrub.run()),
                record.run_checks(),
                answer_position_requests(parts.connection, store),
                answer_searches(
                    parts.connection,
                    IndexedKnowledge(store=store, signal=signal, embedder=embedder),
                ),
                serve_health(settings.health, health_checks, settings.tenant),
                run_lag_measurement(settings, parts, store),
                run_webhooks(settings, parts, ending, is_alone=is_alone),
            ):
                database = hide_credentials(settings.database_url.get_secret_value())
                _log.info("projector-started", tenant=settings.tenant, database=database)
                yield
        finally:
            await store.close()


def _create_health_checks(
    settings: ProjectorSettings,
    parts: ProcessComponents,
    store: ReadModelStore,
    record: RecordWatch,
) -> HealthChecks:
    return {
        **parts.create_health_checks(settings.tenant),
        "database": partial(_check_database, store),
        "record": record.check_record,
        "knowledge": partial(require_sound_index, store),
    }


def _create_alert_evaluator(
    settings: ProjectorSettings, parts: ProcessComponents, store: ReadModelStore
) -> AlertEvaluator:
    return AlertEvaluator(
        log=parts.log,
        store=store,
        service=parts.create_alert_service(),
        clock=read_clock,
        interval=settings.alert_interval,
    )


def _create_scrub(parts: ProcessComponents) -> RecordScrub:
    return RecordScrub(
        connection=parts.connection,
        log=parts.log,
        library=parts.library,
        alerts=parts.alerts,
        reads=parts.reads,
        blobs=parts.blobs,
        clock=read_clock,
    )


async def _check_database(store: ReadModelStore) -> None:
    async with store.open_reader() as connection:
        await read_active_position(connection)
