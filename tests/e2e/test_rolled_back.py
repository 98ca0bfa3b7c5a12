"""A nats-server restored from an older copy of its store: every role stops and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.process_host import wait_for_exit_code
from tests.support.processes.separate_roles import SeparateRoles
from tests.support.servers.nats_store_copies import copy_store, restore_store
from turnlog.services.api.published_errors.error_code import ExitCode

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


async def test_every_role_exits_with_an_alarm_when_the_log_is_rolled_back(
    separate: SeparateRoles, tmp_path: Path
) -> None:
    service, output_file = separate.service, tmp_path / "worker.log"
    worker = await separate.start_role("worker", output_file=output_file)
    await service.run_turn(await service.open_session())
    folder = separate.machine.folder / "nats"
    await copy_store(separate.server, folder, tmp_path)
    session = await service.open_session()
    await service.run_turn(session)
    await service.list_calls(session)
    await restore_store(separate.server, folder, tmp_path)
    for process in (worker, separate.gateway, separate.projector):
        assert await wait_for_exit_code(process) == ExitCode.VERIFICATION_FAILED
    assert "component-failed" in output_file.read_text()
    assert "turnlog rebuild" in output_file.read_text()
    # A restarted projector still knows it from its rows.
    assert separate.server.monitor_url
    monitor = {"TURNLOG_NATS_MONITOR": separate.server.monitor_url}
    again = await separate.start_role("projector", monitor)
    assert await wait_for_exit_code(again) == ExitCode.VERIFICATION_FAILED
