"""A new data directory seals from the start, and one from before stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_sealed_sessions import list_files_with
from tests.support.processes.process_host import run_process_host
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from turnlog.services.seals.keyring_files import KEYRING_FILE

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("services start"),
]

MARKER = "qvxmarker"
"""What somebody says here, and nothing else has in it."""


async def run_session(up: TurnlogUp) -> str:
    """Say the marker in a new session."""
    session = await up.service.open_session()
    await up.service.run_turn(session, MARKER)
    return session


async def erase_session(up: TurnlogUp, session: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """Erase a session, and return the answer."""
    return (await up.service.http.delete(f"/v1/sessions/{session}?reason=4711")).json()


def is_in_log(up: TurnlogUp) -> bool:
    folder = up.ready_file.parent / "jetstream"
    return any(list_files_with(folder, MARKER.encode()))


async def test_new_directory_seals_and_goes_on_to_without_any_setting(tmp_path: Path) -> None:
    async with run_process_host(tmp_path, {}) as host:
        said = tmp_path / "said"
        async with run_turnlog_up(host, output_file=said) as up:
            keyring = up.ready_file.parent / KEYRING_FILE
            await run_session(up)
            (line,) = [each for each in said.read_text().splitlines() if "sessions-sealed" in each]
            assert str(keyring) in line
            assert "whoever loses it loses the words" in line
        made = keyring.read_text()
        async with run_turnlog_up(host) as up:
            session = await run_session(up)
            assert not is_in_log(up)
            assert (await erase_session(up, session))["status"] == "erased"
        assert keyring.read_text() == made


async def test_plain_directory_stays_plain_until_sealing_is_asked_for(tmp_path: Path) -> None:
    async with run_process_host(tmp_path, {}) as host:
        keyring = tmp_path / "data" / KEYRING_FILE
        async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "off"}) as up:
            await run_session(up)
        async with run_turnlog_up(host) as up:
            plain = await run_session(up)
            assert is_in_log(up)
            assert (await erase_session(up, plain))["code"] == "not-sealed"
        assert not keyring.exists()
        async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "on"}) as up:
            sealed = await run_session(up)
            assert (await erase_session(up, sealed))["status"] == "erased"
            assert (await erase_session(up, plain))["code"] == "not-sealed"
        assert keyring.exists()
