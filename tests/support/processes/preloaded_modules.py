"""Everything a Turnlog process imports before it can work; importing this module imports it."""

from __future__ import annotations

from turnlog.services.cli.actions import service_start
from turnlog.services.gateway import main as gateway
from turnlog.services.projector import main as projector
from turnlog.services.worker import worker_process as worker
from turnlog.services.worker.model import litellm_library

__all__ = ["gateway", "projector", "service_start", "worker"]


litellm_library.load_litellm()
