"""The projector process: builds the projectors from their components and runs them."""

from __future__ import annotations

from turnlog.events.log.ports import Log
from turnlog.projections.store.engine import Store
from turnlog.projections.store.reach import Bell
from turnlog.services.projector.folding import Folding
from turnlog.services.projector.projector import Projector
from turnlog.services.runtime.settings import ProjectorSettings
from turnlog.services.runtime.telemetry import Tracing


def build(
    settings: ProjectorSettings, *, log: Log, store: Store, bell: Bell, tracing: Tracing
) -> Projector:
    """Return a projector; the caller opens and closes log and store."""
    return Projector(Folding(log, store, tracing, settings.tenant), bell)
