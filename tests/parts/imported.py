"""Everything a Turnlog process imports before it can work; importing this module imports it."""

from __future__ import annotations

from turnlog.services.cli import starting
from turnlog.services.gateway import role as gateway
from turnlog.services.projector import role as projector
from turnlog.services.worker import role as worker
from turnlog.services.worker.model import litellm_library

__all__ = ["gateway", "projector", "starting", "worker"]

litellm_library.load()
