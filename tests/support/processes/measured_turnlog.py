"""`turnlog` with its event loop measured: `python -m tests.support.processes.measured_turnlog FILE`

The arguments of `turnlog` follow. Every callback of the loop that takes a hundredth of a second of
processor time is a line of the file: the seconds and what was called. Processor time is that of the
loop's thread, so a busy machine and other threads are not blamed on the callback.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

LEAST_SECONDS = 0.01


def measure_callbacks(file: Path) -> None:
    """Write the long callbacks of all loops of this thread to a file, which is there at once."""
    run_callback = getattr(asyncio.Handle, "_run")  # noqa: B009 - typeshed has no private names
    output = file.open("a", buffering=1)

    def run_measured(handle: asyncio.Handle) -> None:
        callback = getattr(handle, "_callback", None)
        before = time.thread_time()
        run_callback(handle)
        if (seconds := time.thread_time() - before) >= LEAST_SECONDS:
            called = getattr(callback, "__self__", handle)  # The task, where it is a step of one
            print(f"{seconds:.3f}", repr(called)[:400], file=output)

    setattr(asyncio.Handle, "_run", run_measured)  # noqa: B010 - as above


if __name__ == "__main__":
    measure_callbacks(Path(sys.argv[1]))
    from turnlog.services.cli.main import main

    main(sys.argv[2:])
