"""Record which functions of the product a process calls that has this folder on its path.

SIGUSR1 begins the record; SIGUSR2 ends it and writes it to the file that `CALLED` names, one line
`file function` for each function.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = "/src/turnlog/"


class CallRecorder:
    """The functions called since the record began."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.called: set[str] = set()

    def record_call(self, frame: FrameType, event: str, _: Any) -> None:  # noqa: ANN401 - any value
        """Record a call, as `sys.setprofile` reports it."""
        _, source, module = frame.f_code.co_filename.rpartition(SOURCE)
        if event == "call" and source:
            self.called.add(f"{module} {frame.f_code.co_qualname}")

    def begin_record(self, *_: object) -> None:
        """Begin to record the calls of this thread."""
        sys.setprofile(self.record_call)

    def write_record(self, *_: object) -> None:
        """End the record and write it; the file appears whole."""
        sys.setprofile(None)
        unfinished = self.output.with_suffix(".unfinished")
        unfinished.write_text("\n".join(sorted(self.called)))
        unfinished.rename(self.output)


if __name__ == "sitecustomize":
    recorder = CallRecorder(Path(os.environ["CALLED"]))
    signal.signal(signal.SIGUSR1, recorder.begin_record)
    signal.signal(signal.SIGUSR2, recorder.write_record)
