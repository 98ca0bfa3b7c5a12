"""Damaged data directories: what `verify`, `/readyz` and a start say is in docs/faults.md.

Each row is one damage done to a copy of a directory that was stopped in good order. The cells of
the table quote what must be said; "ready" and "verified" are quotes too.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.faults.suite_extent import select_rows
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.loop_holds import assert_loop_free
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.turnlog_process import TurnlogProcess, fork_turnlog
from tests.support.servers.store_damage import StoredStream

pytestmark = pytest.mark.timeout(300)

DOCUMENT: Final = Path(__file__).parents[2] / "docs/faults.md"

ANSWER_SECONDS: Final = 60.0
"""Seconds until an answer counts as missing; each takes a few on an idle machine."""

FIRST, SECOND = "first", "second"
"""Two sessions of every directory; the second was opened after the older copy was made."""


@dataclass(frozen=True, slots=True)
class DamagedDirectory:
    """A copy of the directory, to damage, and an older copy to take parts from."""

    path: Path
    older: Path

    def open_stream(self, name: str) -> StoredStream:
        return StoredStream(self.path, name)

    def replace_by_older(self, name: str) -> None:
        """Put what the older copy has in the place of a file or folder."""
        ours, theirs = self.path / name, self.older / name
        if ours.is_dir():
            shutil.rmtree(ours)
            shutil.copytree(theirs, ours)
        else:
            shutil.copy(theirs, ours)


def flip_byte(stream: str, place: Callable[[int], int] = lambda last: last) -> Damage:
    def damage(directory: DamagedDirectory) -> None:
        stored = directory.open_stream(stream)
        stored.flip_byte(place(max(stored.list_records())))

    return damage


def lose_block(stream: str) -> Damage:
    return lambda directory: directory.open_stream(stream).block.unlink()


def lose_stream(stream: str) -> Damage:
    def damage(directory: DamagedDirectory) -> None:
        directory.open_stream(stream).block.unlink()
        directory.open_stream(stream).index.unlink()

    return damage


def overwrite_read_models(directory: DamagedDirectory) -> None:
    file = directory.path / "read-models.db"
    file.write_bytes(b"\0" * file.stat().st_size)


def use_older_read_models(directory: DamagedDirectory) -> None:
    directory.replace_by_older("read-models.db")


Damage = Callable[[DamagedDirectory], object]

DAMAGES: Final[Mapping[str, Damage]] = {
    "flipped byte in `SESSIONS`": flip_byte("SESSIONS", lambda _: 5),
    "flipped byte in the last event": flip_byte("SESSIONS"),
    "flipped byte in `LIBRARY`": flip_byte("LIBRARY"),
    "flipped byte in `BLOBS`": flip_byte("BLOBS", lambda _: 1),
    "flipped byte in `SNAPSHOTS`": flip_byte("SNAPSHOTS"),
    "missing block of `SESSIONS`": lose_block("SESSIONS"),
    "missing block of `LIBRARY`": lose_block("LIBRARY"),
    "missing block of `BLOBS`": lose_block("BLOBS"),
    "missing block of `KEYS`": lose_block("KEYS"),
    "missing index": lambda directory: directory.open_stream("SESSIONS").index.unlink(),
    "missing block and index": lose_stream("SESSIONS"),
    "missing block and index of `LIBRARY`": lose_stream("LIBRARY"),
    "older log": lambda directory: directory.replace_by_older("jetstream"),
    "newer log": use_older_read_models,
    "cut tail": lambda directory: directory.open_stream("SESSIONS").cut_tail(3),
    "purged session": lambda directory: directory.open_stream("SESSIONS").drop_messages(
        f"session.default.{FIRST}."
    ),
    "damaged SQLite": overwrite_read_models,
    "missing keyring": lambda directory: (directory.path / "keyring").unlink(),
    "missing credentials": lambda directory: (directory.path / "credentials").unlink(),
    "emptied credentials": lambda directory: (directory.path / "credentials").write_text(""),
}

SUITE: Final = (
    "flipped byte in `SESSIONS`",
    "flipped byte in `BLOBS`",
    "missing block of `SESSIONS`",
    "missing block and index of `LIBRARY`",
    "cut tail",
    "purged session",
)
"""The rows of the suite; the others run with FAULTS=all."""


def read_table() -> dict[str, tuple[str, str, str]]:
    """Return the rows of the document's table, by their damage."""
    rows = (line.strip("|").split("|") for line in DOCUMENT.read_text().splitlines())
    cells = [[cell.strip() for cell in row] for row in rows]
    return {row[0]: (row[1], row[2], row[3]) for row in cells if row[0] in DAMAGES}


@dataclass(frozen=True, slots=True)
class PlayedDirectory:
    """A directory that was stopped in good order, and a copy from before its last session."""

    path: Path
    older: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> PlayedDirectory:
    folder = tmp_path_factory.mktemp("damaged")
    path, older = folder / "data", folder / "older"
    play_session(path, FIRST)
    shutil.copytree(path, older)
    play_session(path, SECOND)
    return PlayedDirectory(path, older)


def play_session(path: Path, session: str) -> None:
    with (
        run_blocking_turnlog_up(path) as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        segment = {"scope": "lore", "content": f"Written for {session}.", "locale": "en"}
        client.post("/v1/segments", json=segment).raise_for_status()
        asked = {"blueprint": "assistant", "session": session}
        client.post("/v1/sessions", json=asked).raise_for_status()
        for _ in range(2):
            turn = {"text": "Hello!"}
            client.post(f"/v1/sessions/{session}/turns?wait=90", json=turn).raise_for_status()
        head = client.get(f"/v1/sessions/{session}").raise_for_status().json()["sequence"]
        calls = f"/v1/sessions/{session}/calls?min_sequence={head}"
        client.get(calls).raise_for_status()
        client.get("/v1/segments").raise_for_status()


@pytest.fixture
def damaged(
    request: pytest.FixtureRequest, played: PlayedDirectory, tmp_path: Path
) -> DamagedDirectory:
    path = tmp_path / "data"
    shutil.copytree(played.path, path)
    directory = DamagedDirectory(path, played.older)
    DAMAGES[request.param](directory)
    return directory


def test_table_has_a_row_for_every_damage() -> None:
    assert read_table().keys() == DAMAGES.keys()


ROWS = select_rows(DAMAGES, SUITE)


@pytest.mark.slow("processes are attacked and have to recover")
@pytest.mark.parametrize(("damaged", "row"), [(name, name) for name in ROWS], indirect=["damaged"])
@pytest.mark.promise("P17")
def test_damaged_directory_is_reported_as_the_table_states(
    damaged: DamagedDirectory, row: str, tmp_path: Path
) -> None:
    verify, readiness, start = read_table()[row]
    assert_quoted(verify, run_verify(damaged.path, tmp_path / "verify.log"))
    started, ready = start_service(damaged.path, tmp_path / "up.log", readiness)
    assert_quoted(start, started)
    assert_quoted(readiness, ready)
    assert_loop_free(tmp_path / "up.log")


def assert_quoted(cell: str, said: str) -> None:
    """Check that everything in backticks in a cell of the table was said."""
    plain = " ".join(said.split())
    for quote in re.findall("`([^`]+)`", cell):
        assert quote in plain, (quote, said)


def run_verify(data_dir: Path, output: Path) -> str:
    process = fork_turnlog(
        ("verify", "--all", "--data-dir", str(data_dir)), {"COLUMNS": "400"}, output
    )
    try:
        code = process.join_process(ANSWER_SECONDS)
        return f"exit code {code}\n{output.read_text()}"
    finally:
        process.kill_process()


def start_service(data_dir: Path, output: Path, readiness: str) -> tuple[str, str]:
    """Start `turnlog up`; return what it said, and what `/readyz` did."""
    words = ("up", "--data-dir", str(data_dir), "--http", "127.0.0.1:0")
    process = fork_turnlog(words, {}, output)
    try:
        ready = wait_for_readiness(data_dir / "ready.json", process, readiness)
        if process.returncode is None:
            process.terminate_process()
        code = process.join_process(ANSWER_SECONDS)
        return f"exit code {code}\n{output.read_text()}", ready
    finally:
        process.kill_process()


def wait_for_readiness(ready_file: Path, process: TurnlogProcess, expected: str) -> str:
    """Return the status and body of `/readyz` once it says what is expected, or its last answer.

    If nothing is expected, the process ends by itself. A damage in the middle of a stream is known
    after the streams were read in the background.
    """
    quotes = re.findall("`([^`]+)`", expected)
    until, said = time.monotonic() + ANSWER_SECONDS, "no answer"
    while process.returncode is None and time.monotonic() < until:
        with suppress(OSError, ValueError, httpx.HTTPError):
            address = json.loads(ready_file.read_bytes())["http"]
            answer = httpx.get(f"{address}/readyz", timeout=ANSWER_SECONDS)
            said = f"{answer.status_code} {answer.text}"
            if quotes and all(quote in said for quote in quotes):
                return said
        time.sleep(POLL_INTERVAL)
    return said
