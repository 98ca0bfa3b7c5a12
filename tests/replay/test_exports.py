"""Sessions played by this version: exported in every format and reproduced in every way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from zipfile import ZipFile

import pytest
import pytest_asyncio
from pyarrow import parquet  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]

from tests.replay.bundle_copies import BundleCopy, list_context_sequences
from tests.replay.session_scripts import play_sessions
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.support.processes.service_connection import connect_service
from tests.support.sessions.reproduction_checks import (
    find_unreproducible_calls,
    get_verification_means,
)
from turnlog.events.errors import Refused
from turnlog.projections.audit.verify.session_verification import verify_session
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.bundle.verifier import EXIT_UNWITNESSED, EventChain, verify_prompt
from turnlog.services.cli.actions.session_export import ExportForm, export_bundle, export_files
from turnlog.services.cli.client.service_client import ServiceClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, repr=False)
class RecordedService:
    stand: RunningGateway
    held: MemoryBackend
    sessions: tuple[str, ...]
    bundle: Path

    @property
    def service(self) -> ServiceClient:
        return connect_service(self.stand.http)

    def list_stored_lines(self, session: str) -> list[bytes]:
        """Return the stored lines of a session."""
        places = self.held.log.sessions["golden", session]
        raws = (self.held.log.stored[place - 1] for place in places)
        return [raw.stored for raw in raws if raw]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RecordedService]:
    folder, backend = tmp_path_factory.mktemp("played"), MemoryBackend()
    async with start_service(backend, "golden", folder) as stand:
        sessions = await play_sessions(stand)
        await export_bundle(connect_service(stand.http), sessions, folder / "bundle", None)
        yield RecordedService(stand, backend, sessions, folder / "bundle")


def run_verifier(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle's verifier as a recipient does: nothing installed, no variables, no shell."""
    command = [sys.executable, "-I", "-S", "verify.py", *words]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


async def test_every_call_of_every_shipped_blueprint_is_reproduced_in_both_ways(
    house: RecordedService,
) -> None:
    copy = BundleCopy.read_bundle(house.bundle)
    shipped, made = set(BlueprintFolders().list_names()), 0
    for session in house.sessions:
        report = verify_session(
            copy.read_events(session), copy.read_texts(), get_verification_means()
        )
        fixed = len(list_context_sequences(copy, session))
        prompts = report.prompts
        assert (report.findings, prompts.reference, prompts.assembly) == ((), fixed, fixed)
        opened = json.loads(copy.sessions[session][0])["data"]["blueprint"]
        shipped -= {opened["name"]}
        made += fixed
    assert shipped == set(), "of each there is a session"
    assert made > 25
    assert find_unreproducible_calls(house.held.log.stored, house.held.blobs.blobs) == []


async def test_bundle_verifier_needs_only_its_own_folder(house: RecordedService) -> None:
    done = run_verifier(house.bundle, "--prompt", "drawing", "2.1")
    assert done.returncode == EXIT_UNWITNESSED, "it was exported without a checkpoint"
    head, _, prompt = done.stdout.partition("UNWITNESSED\n")
    assert head.count("  ok ") == 2 + len(house.sessions)
    prompt_view = await house.stand.fetch_json("/v1/sessions/drawing/calls/2.1/prompt")
    assert json.loads(prompt) == prompt_view["messages"]


async def test_verifier_exits_with_5_for_an_altered_bundle(
    house: RecordedService, tmp_path: Path
) -> None:
    copy = BundleCopy.read_bundle(house.bundle)
    copy.change_event("game", 4, lambda event: event["data"]["manifest"].update(tokens=1))
    copy.extra_files["verify.py"] = (house.bundle / "verify.py").read_bytes()
    done = run_verifier(copy.write_bundle(tmp_path))
    assert done.returncode == 5
    assert "FAILED  session game: event 4:" in done.stdout


async def test_bundle_verifier_and_gateway_read_back_the_same_prompts(
    house: RecordedService,
) -> None:
    copy = BundleCopy.read_bundle(house.bundle)
    for name in house.sessions:
        session = EventChain()
        session.read_lines(copy.sessions[name], "golden", name)
        for _, call in session.iterate_calls():
            path = f"/v1/sessions/{name}/calls/{call['call']}/prompt"
            prompt_view = await house.stand.fetch_json(path)
            assert verify_prompt(call, session, copy.blobs) == prompt_view["messages"]
            assert call["manifest"]["digest"] == prompt_view["digest"]


async def test_zip_bundle_contains_the_same_files_as_a_folder_bundle(
    house: RecordedService, tmp_path: Path
) -> None:
    await export_bundle(house.service, house.sessions, tmp_path / "all.zip", None)
    with ZipFile(tmp_path / "all.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    # The lists differ by when they were made
    assert len(files.pop("manifest.json")) > 0
    assert {"manifest.json", *files} == set(read_files(house.bundle))
    assert files.items() <= read_files(house.bundle).items()
    assert set(read_files(tmp_path)) == {"all.zip"}


async def test_text_withheld_before_its_reply_is_in_no_export(
    house: RecordedService, tmp_path: Path
) -> None:
    for form in ("ndjson", "chat", "parquet"):
        await export_files(house.service, ["drawing"], ExportForm(form), tmp_path / form)
    for content in (read_files(tmp_path) | read_files(house.bundle)).values():
        assert b"trick@example.org" not in content


async def test_reply_redacted_later_is_exported_only_in_stored_events_with_a_notice(
    house: RecordedService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("ndjson", "parquet"):
        await export_files(house.service, ["assistant"], ExportForm(form), tmp_path / form)
        told = "3 texts were redacted after being said: `--stored` exports what was said"
        assert told in capsys.readouterr().err
    assert b"At last." not in (tmp_path / "ndjson").read_bytes()
    table = cast("dict[str, list[str]]", parquet.read_table(tmp_path / "parquet").to_pydict())
    assert not any("At last." in text for text in table["stored"])
    stored = ExportForm("ndjson", stored=True)
    await export_files(house.service, ["assistant"], stored, tmp_path / "stored")
    assert "said: what was said is in the events" in capsys.readouterr().err
    assert b"At last." in (tmp_path / "stored").read_bytes()
    await export_bundle(house.service, ["assistant", "drawing"], tmp_path / "b", None)
    assert "3 texts were redacted after being said" in capsys.readouterr().err
    assert b"At last." in b"".join(read_files(tmp_path / "b").values())
    await export_files(house.service, ["drawing"], ExportForm("ndjson"), tmp_path / "by-rule")
    await export_files(house.service, ["assistant"], ExportForm("chat"), tmp_path / "chat")
    assert "redacted" not in capsys.readouterr().err


async def test_export_refuses_invalid_session_ids_and_exports_a_repeated_one_once(
    house: RecordedService, tmp_path: Path
) -> None:
    for name in ("../../escaped", "/escaped", "a b"):
        with pytest.raises(Refused, match="bad-id"):
            await export_files(
                house.service, ["game", name], ExportForm("ndjson"), tmp_path / "in" / "all"
            )
        with pytest.raises(Refused, match="bad-id"):
            await export_bundle(house.service, [name], tmp_path / "in" / "b", None)
    assert read_files(tmp_path) == {}
    await export_bundle(house.service, ["game", "game"], tmp_path / "b", None)
    assert [
        each.session for each in BundleCopy.read_bundle(tmp_path / "b").bundle_list.sessions
    ] == ["game"]


async def test_ndjson_lines_are_the_exact_bytes_of_the_log(
    house: RecordedService, tmp_path: Path
) -> None:
    await export_files(
        house.service, house.sessions, ExportForm("ndjson", stored=True), tmp_path / "all"
    )
    for session in house.sessions:
        kept = (tmp_path / "all" / f"{session}.ndjson").read_bytes()
        assert kept == b"".join(line + b"\n" for line in house.list_stored_lines(session))


async def test_parquet_table_has_a_row_per_event_with_its_exact_bytes(
    house: RecordedService, tmp_path: Path
) -> None:
    form = ExportForm("parquet", stored=True)
    await export_files(house.service, ["assistant"], form, tmp_path / "table")
    table = cast("dict[str, list[str]]", parquet.read_table(tmp_path / "table").to_pydict())
    assert [text.encode() for text in table["stored"]] == house.list_stored_lines("assistant")
    assert table["prevhash"][1:] == table["hash"][:-1]
    assert table["name"][0] == "session-opened"


async def test_chat_export_shows_what_users_saw_with_the_status_of_each_turn(
    house: RecordedService, tmp_path: Path
) -> None:
    await export_files(house.service, ["assistant"], ExportForm("chat"), tmp_path / "talk.md")
    talk = (tmp_path / "talk.md").read_text()
    assert "> Who are you?\n\n**Reply**\n\n> A record. Of turns.\n" in talk
    assert "At last." not in talk, "it was redacted when later turns had long been answered"
    assert "> (Sorry.)\n\n*it is rude*" in talk
    assert talk.count("### Turn ") == 11
    for mark in ("· failed", "· cancelled", "· withheld"):
        assert mark in talk


async def test_export_overwrites_nothing_and_leaves_no_partial_output(
    house: RecordedService, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="folder-exists"):
        await export_bundle(house.service, ["game"], house.bundle, None)
    with pytest.raises(Refused, match="unknown-session"):
        await export_bundle(house.service, ["game", "nobody"], tmp_path / "b", None)
    assert read_files(tmp_path) == {}
    with pytest.raises(Refused, match="bad-option"):
        await export_files(house.service, ["game"], ExportForm("parquet"), None)
