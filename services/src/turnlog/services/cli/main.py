"""The entry point of the command line: build, run, map errors to exit codes.

Errors of the operating system are shown like Turnlog's own. Every other exception is a bug; it is
not caught and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from turnlog.events.errors import TurnlogError
from turnlog.services.cli.app import build_app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with these arguments, or with those of this process."""
    try:
        build_app()(arguments)
    except (TurnlogError, OSError) as error:
        sys.exit(_report_error(error))


def _report_error(error: TurnlogError | OSError) -> int:
    # Imported only when an error is shown, because `--help` must stay fast.
    from turnlog.services.cli.console import create_error_console  # noqa: PLC0415
    from turnlog.services.cli.error_display import describe_error, print_error  # noqa: PLC0415

    failure = describe_error(error)
    print_error(failure, create_error_console())
    return failure.exit_code
