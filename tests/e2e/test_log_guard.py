"""Roles whose log is older than the read models write nothing, and recover by themselves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes.process_host import POLL_INTERVAL, find_free_port, wait_for_exit_code
from tests.support.processes.separate_roles import SeparateRoles
from tests.support.servers.nats_store_copies import copy_store, restore_store
from turnlog.services.api.published_errors.error_code import ExitCode

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes of the service start, stop and recover"),
]

UNANSWERED_TEXT = "Nobody answers this before the log is restored."


async def test_no_write_or_turn_is_accepted_on_a_log_behind_the_read_models(
    separate: SeparateRoles, tmp_path: Path
) -> None:
    service, folder = separate.service, separate.machine.folder / "nats"
    kept = await service.open_session()
    await service.submit_turn(kept, UNANSWERED_TEXT)
    await copy_store(separate.server, folder, tmp_path / "older")
    lost = await service.open_session()
    await service.get_json(f"/v1/sessions/{lost}/calls", min_sequence=1)
    await copy_store(separate.server, folder, tmp_path / "later")
    # A gateway that was not running when the log went back has no cached state to compare.
    separate.gateway.kill_process()
    await separate.gateway.wait_for_exit()
    await restore_store(separate.server, folder, tmp_path / "older")
    assert await wait_for_exit_code(separate.projector) == ExitCode.VERIFICATION_FAILED
    assert separate.server.monitor_url  # It has another port after each start of the server.
    monitor = {"TURNLOG_NATS_MONITOR": separate.server.monitor_url}
    separate.gateway = await separate.start_role("gateway", monitor)
    readiness = await wait_for_readiness(separate, 503)
    assert "turnlog rebuild" in readiness["parts"]["log"]["detail"]
    for path, body in (
        ("/v1/sessions", {"blueprint": "assistant"}),
        (f"/v1/sessions/{kept}/turns", {"text": "Hi"}),
        (f"/v1/sessions/{kept}/close", {}),
        ("/v1/segments", {"scope": "core", "content": "x"}),
    ):
        refused = await service.http.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, "log-rolled-back"), path
        assert "turnlog rebuild" in refused.json()["detail"]
    # A worker has no read models: the gateway tells it what they are folded up to.
    health, output = f"127.0.0.1:{find_free_port()}", tmp_path / "worker.log"
    worker = await separate.start_role("worker", monitor | {"TURNLOG_HEALTH": health}, output)
    readiness = await wait_for_readiness(separate, 503, f"http://{health}")
    assert "turnlog rebuild" in readiness["parts"]["log"]["detail"]
    assert [name for name, part in readiness["parts"].items() if not part["ready"]] == ["log"]
    await wait_for_line(output, "turn-postponed")
    assert len(await service.list_events(kept)) == 2
    asked = [exchange.raw for exchange in separate.provider.exchanges]  # Other tests call it too.
    assert not [body for body in asked if UNANSWERED_TEXT.encode() in body]
    assert (await service.get_json(f"/v1/sessions/{kept}"))["session"] == kept
    # The later log is restored while the gateway runs.
    await restore_store(separate.server, folder, tmp_path / "later")
    await wait_for_readiness(separate, 200)
    assert (await service.run_turn(kept))["status"] == "completed"
    assert worker.returncode is None


async def wait_for_line(file: Path, text: str) -> None:
    """Wait until a process has logged something."""
    async with asyncio.timeout(60):
        while text not in await asyncio.to_thread(file.read_text):  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL)


async def wait_for_readiness(
    separate: SeparateRoles, status: int, address: str = ""
) -> dict[str, Any]:
    """Wait until `/readyz` answers with a status and names the log; return the answer."""
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                answer = await separate.service.http.get(f"{address}/readyz")
                if answer.status_code == status and "no answer" not in answer.text:
                    return dict(answer.json())
            await asyncio.sleep(POLL_INTERVAL)
