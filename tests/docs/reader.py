"""Where a reader of the pages sits: a folder, a service that runs in it, and a clean shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from threading import Thread

ADDRESS = "http://127.0.0.1:8700"
"""Where a service is by default, and so on every page."""
BIN = Path(sys.executable).parent
SEPARATOR = "\x1e"
"""Stands between what two blocks print."""
CURL = "fail-with-body\nsilent\nshow-error\n"
"""A request that is refused ends a program, and nothing but answers is printed."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder, the address of its service, and no variables but what is exported."""

    folder: Path
    address: str = ADDRESS
    exported: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        clean = {"PATH": f"{BIN}:{os.defpath}", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        return {**clean, **self.exported}

    def printed(self, program: str, *command: str) -> list[str]:
        """Run a program, and give what each of its blocks printed."""
        done = subprocess.run(
            command,
            input=program.replace(ADDRESS, self.address),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout.split(SEPARATOR)

    def run(self, blocks: list[str]) -> list[str]:
        """Run shell blocks as one program that ends at the first command to fail."""
        program = f"\nprintf '{SEPARATOR}'\n".join(blocks)
        return self.printed(f"set -euo pipefail\n{program}", "bash", "-s")


@contextmanager
def serving(
    folder: Path, command: list[str], exported: Mapping[str, str] | None = None
) -> Generator[Shell]:
    """Run `turnlog up` in a folder until it is left; it must end well then."""
    (folder / ".curlrc").write_text(CURL)
    shell = Shell(folder, exported=exported or {})
    words = [str(BIN / command[0]), *command[1:], "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        words, cwd=folder, env=shell.environment, stderr=subprocess.PIPE, text=True
    ) as service:
        assert service.stderr is not None
        said = list(takewhile(lambda line: not line.startswith("turnlog is up"), service.stderr))
        Thread(target=service.stderr.read, daemon=True).start()
        try:
            yield Shell(folder, address_of(folder, said), shell.exported)
        finally:
            service.terminate()
        assert service.wait() == 0


def address_of(folder: Path, said: list[str]) -> str:
    """Read the address a service left, which it does before it says that it is up."""
    ready = folder / ".turnlog/ready.json"
    assert ready.exists(), "".join(said)
    return str(json.loads(ready.read_text())["http"])
