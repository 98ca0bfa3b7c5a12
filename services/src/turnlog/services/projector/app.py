"""The projector process: builds the projectors from their components and runs them."""

from __future__ import annotations

from turnlog.events.log.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.reach import ProjectionSignal
from turnlog.services.projector.folding import LogFolder
from turnlog.services.projector.projector import SessionProjector
from turnlog.services.runtime.settings import ProjectorSettings
from turnlog.services.runtime.telemetry import Tracing


def build_projector(
    settings: ProjectorSettings, *, log: EventLog, store: ReadModelStore, signal: ProjectionSignal, tracing: Tracing
) -> SessionProjector:
    """Return a projector; the caller opens and closes log and store."""
    return SessionProjector(LogFolder(log, store, tracing, settings.tenant), signal)
