"""What a Turnlog process imports and builds before it can work, done by importing this module.

A process that is forked from this one has the routes of the gateway and the command line already,
which is half of the processor time of its start. Nothing of them depends on its settings.
"""

from __future__ import annotations

from turnlog.services.cli import main as command_line
from turnlog.services.cli.actions import service_start
from turnlog.services.extensions.plugins import read_entry_points
from turnlog.services.gateway import app
from turnlog.services.gateway import main as gateway
from turnlog.services.projector import main as projector
from turnlog.services.start_preparation import build_ahead
from turnlog.services.worker import worker_process as worker
from turnlog.services.worker.model.first_answer import read_first_answer
from turnlog.services.worker.model.litellm_library import load_litellm

__all__ = ["gateway", "projector", "service_start", "worker"]


read_first_answer(load_litellm())
command_line.build_command()
build_ahead()
read_entry_points.cache_clear()  # A test may install packages for the process that it starts.
for has_questions in (False, True):
    app.create_routed_app(asking=has_questions)
