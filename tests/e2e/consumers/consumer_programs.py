"""The consumers of these tests, built and run as processes of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.docs.doc_pages import ROOT
from tests.e2e.consumers.go_types import write_types

HERE: Final = Path(__file__).parent

NODE_MODULES: Final = ROOT / ".venv/contracts/node_modules"

GO_SOURCES: Final = Path("/usr/share/gocode")
"""Where Debian's packages of Go have their sources."""

GO: Final = shutil.which("go")

NODE_MISSING_REASON: Final = (
    "there is no node to run it"
    if shutil.which("node") is None
    else "npm did not bring nats.js: remove .venv/contracts and `make .venv/contracts/installed`"
    if not (NODE_MODULES / "@nats-io/jetstream").exists()
    else ""
)

GO_MISSING_REASON: Final = (
    "no `go` on PATH"
    if GO is None
    else "no package golang-github-nats-io-go-nats-dev"
    if not (GO_SOURCES / "src/github.com/nats-io/nats.go").exists()
    else ""
)


@dataclass(frozen=True, kw_only=True)
class ConsumerProgram:
    """How a consumer is started, and where it has what it made."""

    name: str
    command: Sequence[str | Path]
    state_file: Path
    tokens: Literal["stored", "joined", "live"]
    """Whether it reads the stream of tokens, or a session's tokens joined with its events, or
    what is published while it is there."""


@dataclass(repr=False)
class RunningConsumer:
    """A consumer that runs, and how far it says it is."""

    process: Process
    printed: tuple[int, int] = field(default=(-1, 0))
    """The number of events, and the place in the stream of tokens, if it has one."""

    def has_reached(self, events: int, tokens: int) -> bool:
        """Return whether it has read that much."""
        return self.printed[0] >= events and self.printed[1] >= tokens

    async def read_progress(self) -> None:
        """Wait until it has written its state once more."""
        assert self.process.stdout
        line = await self.process.stdout.readline()
        assert line, f"it ended with {await self.process.wait()}"
        events, tokens = line.split()
        self.printed = int(events), int(tokens)


@asynccontextmanager
async def run_consumer(program: ConsumerProgram) -> AsyncGenerator[RunningConsumer]:
    """Run a consumer, which goes on where its file says, and kill it where the body ends."""
    process = await asyncio.create_subprocess_exec(
        *program.command, program.state_file, stdout=PIPE, cwd=ROOT
    )
    try:
        yield RunningConsumer(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def build_python(module: str) -> Sequence[str]:
    """Return the command of a consumer in Python."""
    return [sys.executable, "-m", f"tests.e2e.consumers.{module}"]


def run_tool(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a compiler and return what it prints; it must be content."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
        env={**os.environ, **(variables or {})},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_typescript(folder: Path) -> Path:
    """Compile the consumers for node with the types of json2ts; return their folder."""
    for name, schema in {
        "events": "events.schema.json",
        "tokens": "schemas/TokenEvent.json",
        "stream": "schemas/EventOrTokenEvent.json",
    }.items():
        source = ROOT / "docs/reference" / schema
        generator = NODE_MODULES / ".bin/json2ts"
        types = run_tool([generator, "-i", source, "--no-additionalProperties"])
        (folder / f"{name}.ts").write_text(types)
    shutil.copytree(HERE / "node", folder, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    run_tool([NODE_MODULES / ".bin/tsc", "--project", folder])
    return folder / "dist"


def build_go(folder: Path) -> Path:
    """Examine and compile the consumer in Go with the types from the registry; return it."""
    assert GO
    package = folder / "src/consumer"
    shutil.copytree(HERE / "go", package)
    write_types(package)
    variables = {
        "GO111MODULE": "off",
        "GOPATH": f"{folder}:{GO_SOURCES}",
        "GOCACHE": str(folder / "cache"),
    }
    run_tool([GO, "vet", "."], folder=package, variables=variables)
    program = folder / "consumer"
    run_tool([GO, "build", "-o", program, "."], folder=package, variables=variables)
    return program
