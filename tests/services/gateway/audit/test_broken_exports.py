"""A broken session is exported as stored, and its undecodable events are named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from pyarrow import parquet  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
from structlog.testing import capture_logs

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from turnlog.events.errors import Refused
from turnlog.events.store.ports import RawEvent
from turnlog.services.cli.actions.session_export import ExportForm, export_bundle, export_files
from turnlog.services.cli.client.service_reader import ServiceReader

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.tampers]

JUNK = b'{"not": "an\nevent \xff"'

EVIL = ("\x1b[2JHi \x9b31m", "Grüße\x07\x1b]0;owned\x07")
"""Escapes that clear a terminal, colour it, ring its bell and set its title."""


@dataclass(frozen=True, repr=False)
class SpoiledService:
    """A service with sessions of one turn each: `evil`, and two with a spoiled event."""

    stand: RunningGateway
    held: MemoryBackend

    @property
    def reader(self) -> ServiceReader:
        return ServiceReader(self.stand.http)

    def list_stored_events(self, session: str) -> list[bytes]:
        """Return the stored events of a session."""
        places = self.held.log.sessions["broken", session]
        raws = (self.held.log.stored[place - 1] for place in places)
        return [raw.stored for raw in raws if raw]

    def replace_with_junk(self, session: str, number: int) -> None:
        """Replace an event of a session by junk; negative numbers count from its end."""
        place = self.held.log.sessions["broken", session][number - (number > 0)]
        raw = self.held.log.stored[place - 1]
        assert raw
        self.held.log.stored[place - 1] = RawEvent(raw.subject, place, JUNK)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SpoiledService]:
    backend = MemoryBackend()
    async with start_service(backend, "broken", tmp_path_factory.mktemp("sound")) as stand:
        for session, texts in (("fourth", ("Hi", "Good day.")), ("last", EVIL), ("evil", EVIL)):
            await stand.submit_and_answer(await stand.open_session(session=session), *texts)
    folder = tmp_path_factory.mktemp("spoilt")
    async with start_service(backend, "broken", folder, working=False) as stand:
        house = SpoiledService(stand, backend)
        house.replace_with_junk("fourth", 4)
        house.replace_with_junk("last", -1)
        yield house


async def test_export_keeps_every_line_and_names_the_undecodable_event(
    house: SpoiledService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for session in ("fourth", "last"):
        to, stored = tmp_path / session, house.list_stored_events(session)
        await export_files(house.reader, [session], ExportForm("ndjson"), to)
        assert to.read_bytes() == b"".join(line + b"\n" for line in stored)
        number = stored.index(JUNK) + 1
        assert f"event {number} of session {session} cannot be read" in capsys.readouterr().err


async def test_bundle_keeps_stored_bytes_and_its_verifier_names_the_undecodable_event(
    house: SpoiledService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = "fourth"
    await export_bundle(house.reader, [session], tmp_path / "b", None)
    assert f"event 4 of session {session} cannot be read" in capsys.readouterr().err
    lines = (tmp_path / "b" / "sessions" / f"{session}.ndjson").read_bytes()
    assert lines == b"".join(line + b"\n" for line in house.list_stored_events(session))
    command = [sys.executable, "-I", "-S", "verify.py"]
    done = subprocess.run(  # noqa: ASYNC221 - a verifier is run as a stranger runs it
        command, cwd=tmp_path / "b", env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert f"FAILED  session {session}: event 4:" in done.stdout


async def test_chat_and_parquet_exports_mark_the_undecodable_event(
    house: SpoiledService, tmp_path: Path
) -> None:
    await export_files(house.reader, ["fourth"], ExportForm("chat"), tmp_path / "talk.md")
    talk = (tmp_path / "talk.md").read_text()
    assert "*Event 4 cannot be read: " in talk
    assert "> Good day." in talk
    await export_files(house.reader, ["fourth"], ExportForm("parquet"), tmp_path / "table")
    table = cast("dict[str, list[str]]", parquet.read_table(tmp_path / "table").to_pydict())
    assert table["name"].index(cast("str", None)) == table["sequence"].index(cast("str", 4)) == 3
    assert table["stored"][3] == JUNK.decode(errors="backslashreplace")


async def test_export_to_a_terminal_escapes_control_characters(house: SpoiledService) -> None:
    outputs = {form: await export_to_terminal(house, "evil", form) for form in ("chat", "ndjson")}
    for text in outputs.values():
        assert not {code for code in text if ord(code) < 32 or 127 <= ord(code) < 160} - {*"\r\n"}
    assert "␛[2JHi" in outputs["chat"]
    assert "Grüße␇␛]0;owned␇" in outputs["chat"]


async def export_to_terminal(house: SpoiledService, session: str, form: str) -> str:
    """Export a session to a terminal and return what was written there."""
    screen_fd, terminal_fd = os.openpty()
    written = bytearray()
    with os.fdopen(screen_fd, "rb", buffering=0) as screen:
        os.set_blocking(screen_fd, False)
        with os.fdopen(terminal_fd, "w") as terminal, redirect_stdout(terminal):
            await export_files(house.reader, [session], ExportForm(form), None)
            written += screen.read() or b""
    return written.decode()


async def test_export_to_a_pipe_keeps_every_byte(
    house: SpoiledService, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with capture_logs(), os.fdopen(os.dup(1), "w") as pipe, redirect_stdout(pipe):
        await export_files(house.reader, ["evil"], ExportForm("ndjson"), None)
    stored = house.list_stored_events("evil")
    assert capfdbinary.readouterr().out == b"".join(line + b"\n" for line in stored)


async def test_parquet_export_without_pyarrow_is_refused_with_the_install_command(
    house: SpoiledService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python has it where pyarrow is not installed
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Refused, match="pyarrow") as refused:
        await export_files(house.reader, ["evil"], ExportForm("parquet"), tmp_path / "table")
    assert (refused.value.code, refused.value.field) == ("not-installed", "format")
    assert refused.value.fix == "pip install 'turnlog-services[parquet]'"
    assert not (tmp_path / "table").exists()
