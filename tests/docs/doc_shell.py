"""The environment of a reader of the pages: a folder, a running service, and a clean shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from threading import Thread

from tests.support.processes.forked_program import get_forked_program

DEFAULT_ADDRESS = "http://127.0.0.1:8700"
"""The default address of a service, as used on every page."""

BIN = Path(sys.executable).parent

SEPARATOR = "\x1e"
"""Printed between the outputs of two blocks."""

CURL_CONFIG = "fail-with-body\nsilent\nshow-error\n"
"""Makes curl fail on an error status and print nothing but answers."""

SHELL_OPTIONS = "set -euo pipefail; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
"""A program of a page ends at the first failing command, and with it what it started."""


@dataclass(frozen=True, slots=True)
class DocShell:
    """A folder, the address of its service, and only the exported variables."""

    folder: Path
    address: str = DEFAULT_ADDRESS
    exported: Mapping[str, str] = field(default_factory=dict[str, str])
    programs: Path = field(default_factory=lambda: get_forked_program().parent)
    """Where `turnlog` is found first."""

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.programs}:{BIN}:{os.defpath}"
        clean = {"PATH": path, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        return {**clean, **self.exported}

    def run_program(self, program: str, *command: str) -> list[str]:
        """Run a program and return the output of each of its blocks."""
        done = subprocess.run(
            command,
            input=program.replace(DEFAULT_ADDRESS, self.address),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout.split(SEPARATOR)

    def run_blocks(self, blocks: list[str]) -> list[str]:
        """Run shell blocks as one program that ends at the first failing command."""
        program = f"\nprintf '{SEPARATOR}'\n".join(blocks)
        return self.run_program(f"{SHELL_OPTIONS}\n{program}", "bash", "-s")


@contextmanager
def run_service(shell: DocShell, command: list[str]) -> Generator[DocShell]:
    """Run `turnlog up` in the folder of a shell until the body ends; it must exit with 0."""
    folder = shell.folder
    (folder / ".curlrc").write_text(CURL_CONFIG)
    words = [str(shell.programs / command[0]), *command[1:], "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        words, cwd=folder, env=shell.environment, stderr=subprocess.PIPE, text=True
    ) as service:
        assert service.stderr is not None
        startup_lines = list(
            takewhile(lambda line: not line.startswith("turnlog is up"), service.stderr)
        )
        Thread(target=service.stderr.read, daemon=True).start()
        try:
            yield replace(shell, address=read_address(folder, startup_lines))
        finally:
            service.terminate()
        assert service.wait() == 0


def read_address(folder: Path, startup_lines: list[str]) -> str:
    """Read the address that a service writes before it reports that it is up."""
    ready = folder / ".turnlog/ready.json"
    assert ready.exists(), "".join(startup_lines)
    return str(json.loads(ready.read_text())["http"])
