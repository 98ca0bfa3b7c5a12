"""Set up the log of this process.

A service logs to standard error. A command that talks or shows something on a terminal logs to a
file beside its data, so that log lines do not interrupt its output. The standard library's logging
goes to the same stream.
"""

from __future__ import annotations

import logging
from typing import Literal, TextIO

import structlog

from turnlog.services.platform.process_settings import LogLevel


def configure_log(
    stream: TextIO, log_format: Literal["console", "json"], *, minimum_level: LogLevel
) -> None:
    """Send the log of this process to a stream, at `minimum_level` and above."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(minimum_level),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    logging.basicConfig(stream=stream, level=logging.WARNING, force=True)
