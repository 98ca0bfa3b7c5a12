"""Set up the log of this process.

A service logs to standard error. A command that talks or shows something on a terminal logs to a
file beside its data, so that log lines do not interrupt its output. What libraries log with the
standard library goes to the same stream in the same format, with the name of its logger.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Literal, TextIO

import structlog

from turnlog.services.platform.process_settings import LogLevel
from turnlog.services.platform.telemetry.log_traces import add_trace_ids


def configure_log(
    stream: TextIO,
    log_format: Literal["console", "json"],
    *,
    minimum_level: LogLevel,
    shown_events: Collection[str] = (),
) -> None:
    """Send the log of this process to a stream, at `minimum_level` and above.

    `shown_events` are told to a person in another form: of these only warnings are logged.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    add_time = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[
            partial(_drop_shown_events, frozenset(shown_events)),
            structlog.processors.add_log_level,
            add_time,
            add_trace_ids,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(minimum_level),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                add_time,
                add_trace_ids,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _drop_shown_events(
    shown: frozenset[str], logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    del logger
    if method == "info" and event["event"] in shown:
        raise structlog.DropEvent
    return event
