"""Where a process writes its own log, and how.

A service writes to standard error; what plays or reads on a terminal writes into a file beside
its data, so that nothing comes between a person and what was asked for. Libraries that use the
standard library's logging go the same way.
"""

from __future__ import annotations

import logging
from typing import Literal, TextIO

import structlog

Level = Literal["info", "warning"]


def log_to(stream: TextIO, form: Literal["console", "json"], *, least: int = logging.INFO) -> None:
    """Send the log of this process to a stream."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    logging.basicConfig(stream=stream, level=logging.WARNING, force=True)
