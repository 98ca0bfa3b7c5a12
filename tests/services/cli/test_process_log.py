"""The log of a process has one format, whoever writes a line."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import logging
import sys
import structlog
from turnlog.services.cli.process_log import configure_log

configure_log(sys.stderr, sys.argv[1], minimum_level="info")
structlog.get_logger().info("gateway-listening", address="here")
logging.getLogger("library.connection").warning("refused by %s", "the host")
logging.getLogger("library.connection").info("not shown")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("library.connection").exception("it failed")
"""


def list_lines(log_format: str) -> list[str]:
    """Return what a process with that format of its log writes."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, log_format], capture_output=True, text=True, check=True
    )
    return ran.stderr.splitlines()


def test_library_log_lines_are_json_if_the_log_format_is_json() -> None:
    own, refused, failed = (json.loads(line) for line in list_lines("json"))
    assert (own["event"], own["level"], own["address"]) == ("gateway-listening", "info", "here")
    assert (refused["event"], refused["level"]) == ("refused by the host", "warning")
    assert refused["logger"] == "library.connection"
    assert refused["timestamp"] >= own["timestamp"]
    assert (failed["event"], failed["level"]) == ("it failed", "error")
    assert "ZeroDivisionError" in failed["exception"]


def test_library_log_lines_have_the_console_format() -> None:
    own, refused, *_ = list_lines("console")
    assert "[info     ] gateway-listening" in own
    assert "[warning  ] refused by the host" in refused
    assert "library.connection" in refused
