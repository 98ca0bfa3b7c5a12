from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from tests.support.processes.turnlog_up import read_keyring
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.jetstream.jetstream_client import JetStreamLog, add_keys
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.model.turn_events import TurnCompleted, TurnExcluded
from turnlog.events.registry import KnownEvent
from turnlog.events.store.ports import BatchAppended
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.services.audit.checkpoint_signatures import load_or_create_key, sign_checkpoint

ANSWER = TurnCompleted(turn=1, call="1.1", text=PlainText(text="Another answer."), finish="stop")


@dataclass(frozen=True)
class TamperedService:
    data_dir: Path
    unchained: str
    answered_twice: str


async def append_event(data_dir: Path, session: str, event: KnownEvent, *, chained: bool) -> None:
    """Write past every rule, as somebody with the server's password could."""
    nats = json.loads((data_dir / "ready.json").read_text())["nats"]
    async with open_connection(nats, name="tamperer") as connection:
        log = JetStreamLog(connection=add_keys(connection, read_keyring(data_dir)))
        last = await log.read_last_event("default", session, leader=True)
        assert last is not None
        head = last.head if chained else replace(last.head, hash=compute_digest("something else"))
        draft = EventDraft(
            event=event,
            id=f"id-{session}",
            at=datetime.now(UTC),
            source="/tamperer",
            actor="nobody",
        )
        assert isinstance(
            await log.append_batch(encode_batch("default", session, head, [draft])), BatchAppended
        )


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TamperedService]:
    data_dir = tmp_path_factory.mktemp("tampered") / "data"
    with (
        run_blocking_turnlog_up(data_dir) as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        for session in ("sound", "unchained", "answered-twice"):
            body = {"blueprint": "assistant", "session": session}
            client.post("/v1/sessions", json=body).raise_for_status()
            turn = {"text": "Hello!"}
            client.post(f"/v1/sessions/{session}/turns?wait=90", json=turn).raise_for_status()
        asyncio.run(append_event(data_dir, "unchained", TurnExcluded(turn=1), chained=False))
        asyncio.run(append_event(data_dir, "answered-twice", ANSWER, chained=True))
        yield TamperedService(data_dir, "unchained", "answered-twice")


def test_broken_chain_exits_with_code_five_and_names_the_first_bad_event(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    ran = turnlog("verify", tampered.unchained, "--data-dir", tampered.data_dir)
    assert ran.code == 5
    assert "unchained, event 6: event 7 does not continue its bytes" in ran.out
    assert "integrity" in ran.out.partition("✗")[2].splitlines()[0]
    assert "not verified: 1 finding" in ran.out


def test_second_settlement_of_a_turn_is_reported(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    ran = turnlog("verify", tampered.answered_twice, "--data-dir", tampered.data_dir)
    assert ran.code == 5
    assert "answered-twice, event 7: turn 1 was settled before, by event 6" in ran.out


def test_verifying_all_sessions_reports_only_the_tampered_ones(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    ran = turnlog("verify", "--all", "-o", "json", "--data-dir", tampered.data_dir)
    assert ran.code == 5
    found = {(each["session"], each["finding"]["check"]) for each in ran.json["found"]}
    assert found == {("unchained", "chain"), ("answered-twice", "answers")}
    assert (ran.json["verified"], ran.json["sessions"], ran.json["unsound"]) == (False, 3, 2)
    assert (ran.json["integrity"], ran.json["reproduction"]) == ("broken", "reproduced")


@pytest.mark.slow("commands run against a service of their own")
@pytest.mark.promise("P17")
def test_signed_checkpoint_reveals_events_removed_later(
    turnlog: RunCommand, tampered: TamperedService, tmp_path: Path
) -> None:
    target, kept = ("--data-dir", tampered.data_dir), tmp_path / "checkpoint.json"
    refused = turnlog("checkpoint", kept, *target)
    assert (refused.code, kept.exists()) == (5, False), "a broken chain is nothing to sign"
    key = sign_sound_head(turnlog, tampered, kept)
    assert (tampered.data_dir / "key.pem").stat().st_mode & 0o777 == 0o600
    by_whom = turnlog("verify", "sound", "--checkpoint", kept, *target)
    assert (by_whom.code, by_whom.err) == (0, f"signed by {key}\n")
    assert turnlog("verify", "sound", "--checkpoint", kept, "--signer", key, *target).code == 0
    other = turnlog("verify", "sound", "--checkpoint", kept, "--signer", "x", *target)
    assert (other.code, "other-signer" in other.err) == (5, True)
    longer = json.loads(kept.read_bytes())
    longer["checkpoint"]["sessions"]["sound"]["sequence"] += 1
    longer["checkpoint"]["sessions"]["gone"] = {"sequence": 1, "hash": compute_digest("its bytes")}
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(longer))
    ran = turnlog("verify", "sound", "--checkpoint", forged, *target)
    assert (ran.code, "is not one of this checkpoint" in ran.err) == (5, True)
    resigned = tmp_path / "resigned.json"
    sign_changed_checkpoint(longer["checkpoint"], tampered.data_dir / "key.pem", resigned)
    cut = turnlog("verify", "sound", "--checkpoint", resigned, *target)
    assert cut.code == 5
    assert "it was noted and is missing" in cut.out
    result = turnlog("verify", "gone", "--checkpoint", resigned, *target)
    assert (result.code, "it was noted and is missing" in result.out) == (5, True)


def sign_sound_head(turnlog: RunCommand, tampered: TamperedService, file: Path) -> str:
    """Sign the head of the sound session, as `turnlog checkpoint` signs all of them."""
    found = turnlog("verify", "sound", "-o", "json", "--data-dir", tampered.data_dir).json
    head = {"sequence": found["sequence"], "hash": found["head"]}
    made: dict[str, JsonValue] = {
        "at": "2026-01-01T00:00:00Z",
        "tenant": "default",
        "stream": "SESSIONS",
        "created": "2026-01-01T00:00:00Z",
        "end": 1,
        "sessions": {"sound": head},
        "library": {},
    }
    return sign_changed_checkpoint(made, tampered.data_dir / "key.pem", file)


def sign_changed_checkpoint(checkpoint: dict[str, JsonValue], key: Path, file: Path) -> str:
    kept = sign_checkpoint(AuditCheckpoint.model_validate(checkpoint), load_or_create_key(key))
    file.write_text(kept.model_dump_json())
    return kept.signatures[0].key


@pytest.mark.promise("P17")
def test_bundle_is_verified_without_running_its_own_verifier(
    turnlog: RunCommand, tampered: TamperedService, tmp_path: Path
) -> None:
    target, signed_as = ("--data-dir", tampered.data_dir), tmp_path / "signed.json"
    key = sign_sound_head(turnlog, tampered, signed_as)
    sound, bad = tmp_path / "sound.zip", tmp_path / "bad"
    assert (
        turnlog("export", "sound", "--bundle", sound, "--checkpoint", signed_as, *target).code == 0
    )
    assert turnlog("export", tampered.unchained, "--bundle", bad, *target).code == 0
    (bad / "verify.py").write_text("print('verified')")
    ran = turnlog("verify", "--bundle", sound, "--signer", key)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "verified"), ran.err
    assert turnlog("verify", "--bundle", sound, "--signer", "somebody").code == 5
    unsigned = tmp_path / "unsigned"
    ran = turnlog("export", "sound", "--bundle", unsigned, *target)
    assert "its verdict will be unwitnessed" in ran.err
    ran = turnlog("verify", "--bundle", unsigned)
    assert (ran.code, ran.out.splitlines()[-1]) == (6, "UNWITNESSED"), ran.err
    ran = turnlog("verify", "--bundle", bad)
    assert (ran.code, ran.out.splitlines()[-1]) == (5, "NOT VERIFIED")
    assert "event 6: event 7 does not continue its bytes" in ran.out
    (bad / "manifest.json").write_text("{}")
    assert turnlog("verify", "--bundle", bad).code == 5
    for nothing in (tmp_path, signed_as):
        ran = turnlog("verify", "--bundle", nothing)
        assert (ran.code, "--bundle" in ran.err) == (2, True)
    assert turnlog("verify", "sound", "--bundle", sound).code == 2


def test_tampered_session_is_listed_up_to_its_last_valid_event_without_a_service(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    """The read models have set it aside, and the log is asked all the same."""
    listed = turnlog("sessions", "-o", "json", "--data-dir", tampered.data_dir).json["sessions"]
    assert {each["session"]: each["sequence"] for each in listed}["unchained"] == 6


def test_session_page_shows_the_option_for_the_next_page(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    target = ("--data-dir", tampered.data_dir, "--limit", "2")
    page = turnlog("sessions", *target).out
    assert page.index("answered-twice") < page.index("unchained")
    assert "sound" not in page
    older = page.partition("older ones: ")[2].split()
    assert "sound" in turnlog("sessions", *target, *older).out


@pytest.mark.slow("commands run against a service of their own")
def test_read_models_are_rebuilt_while_a_service_reads_them(
    turnlog: RunCommand, tampered: TamperedService
) -> None:
    listed = ("sessions", "-o", "json", "--data-dir", tampered.data_dir)
    before = turnlog(*listed).json
    ran = turnlog("rebuild", "--data-dir", tampered.data_dir)
    assert (ran.code, ran.out) == (0, "rebuilt up to stream sequence 20\n")
    assert "session=unchained" in ran.err, "what is set aside is said, and not among the answers"
    assert turnlog(*listed).json == before
