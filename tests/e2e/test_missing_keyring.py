"""Verification of a whole log by a process that lacks the keyring of some of its sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent_programs.agent_service import answer_with_text
from tests.support.processes.process_host import (
    ProcessHost,
    run_process_host,
    run_turnlog,
    wait_for_exit_code,
)
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.seals.file_keyring import FileKeyring
from turnlog.projections.audit.verify.audit_findings import AuditFinding, CheckName
from turnlog.services.api.published_errors.error_code import ExitCode
from turnlog.services.api.verify_payloads import VerifyFindingLine
from turnlog.services.cli.actions.verification import find_exit_code
from turnlog.services.seals.keyring_files import KEYRING_FILE

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts twice"),
]


async def test_each_sealed_session_is_named_with_the_setting_and_the_others_are_verified(
    host: ProcessHost, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(*(answer_with_text("a reply") for _ in range(3)))
    sealed: list[str] = []
    async with run_turnlog_up(host) as up:
        for _ in range(2):
            sealed.append(await up.service.open_session())
            await up.service.run_turn(sealed[-1])
    async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "off"}) as up:
        plain = await up.service.open_session()
        await up.service.run_turn(plain)
    data = host.folder / "data"
    words = ("verify", "--all", "--data-dir", str(data))
    code, printed, errors = await run_turnlog(*words)
    assert code == 0, printed + errors

    keyring = (data / KEYRING_FILE).rename(host.folder / "keyring")
    code, printed, errors = await run_turnlog(*words)
    assert code == 1, printed + errors
    unwrapped = "".join(printed.split())
    for session in sealed:
        assert f"{session}:itissealed:setTURNLOG_KEYRING" in unwrapped
    assert "integrity     intact" in printed
    assert "reproduction  unchecked" in printed
    assert "not verified: 2 findings" in printed
    code, printed, _ = await run_turnlog(*words, "-o", "json")
    answer = json.loads(printed)
    assert (code, answer["sessions"], answer["unsound"]) == (1, 3, 2)
    assert (answer["prompts"]["unchecked"], answer["prompts"]["assembly"]) == (2, 1)
    assert {each["finding"]["check"] for each in answer["found"]} == {"keyring"}
    keyring.rename(data / KEYRING_FILE)


@pytest.mark.parametrize("sealing", ["", "on"])
async def test_service_does_not_start_on_sealed_sessions_without_their_keyring(
    tmp_path: Path, sealing: str
) -> None:
    data, variables = tmp_path / "data", {"TURNLOG_SEALING": sealing}
    async with run_process_host(tmp_path, {}) as host:
        async with run_turnlog_up(host) as up:
            session = await up.service.open_session()
        (data / KEYRING_FILE).rename(tmp_path / "keyring")
        words = ("up", "--data-dir", str(data), "--http", "127.0.0.1:0")
        said = tmp_path / "said"
        refused = await host.start_process(*words, output_file=said, variables=variables)
        assert await wait_for_exit_code(refused) == ExitCode.USAGE
        text = " ".join(said.read_text().split())
        assert f"sessions in {data} are sealed, and their keyring is not there" in text
        assert not (data / KEYRING_FILE).exists()
        kept = FileKeyring.open(tmp_path / "keyring")
        variables_off = {"TURNLOG_SEALING": "off"}
        async with run_turnlog_up(host, variables=variables_off, keyring=kept) as up:
            answer = await up.service.http.get(f"/v1/sessions/{session}/history")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        (tmp_path / "keyring").rename(data / KEYRING_FILE)
        async with run_turnlog_up(host, variables=variables) as up:
            await up.service.run_turn(session)


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ((), ExitCode.OK),
        (("keyring", "keyring"), ExitCode.ERROR),
        (("keyring", "chain"), ExitCode.VERIFICATION_FAILED),
    ],
)
async def test_fault_of_a_record_decides_the_exit_code_before_what_is_lacking(
    checks: tuple[CheckName, ...], code: ExitCode
) -> None:
    findings = [
        VerifyFindingLine(
            log="sessions", session="s", finding=AuditFinding("reproduction", each, None, "why")
        )
        for each in checks
    ]
    assert find_exit_code(findings) is code
