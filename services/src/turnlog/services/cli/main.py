"""The entry of the command line: build it, run it, and turn errors into exit codes.

What the operating system refuses is told like any other error; a fault of the program is not
caught, and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from turnlog.events.errors import TurnlogError
from turnlog.services.cli.app import build


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with these arguments, or with those of this process."""
    try:
        build()(arguments)
    except (TurnlogError, OSError) as error:
        sys.exit(_told(error))


def _told(error: TurnlogError | OSError) -> int:
    # Imported when there is something to tell: help needs none of it.
    from turnlog.services.cli.console import remarks  # noqa: PLC0415
    from turnlog.services.cli.failures import failure_of, show  # noqa: PLC0415

    failure = failure_of(error)
    show(failure, remarks())
    return failure.exit
