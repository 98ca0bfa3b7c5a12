from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.replay.bundle_copies import BundleCopy
from tests.replay.copied_logs import (
    build_memory_blobs,
    build_memory_log,
    list_findings,
    replace_streams,
)
from tests.replay.golden_logs import get_version_folder
from tests.replay.tampering_cases import GAME, TAMPERINGS, TUTOR, TamperingCase
from tests.support.sessions.reproduction_checks import get_verification_means
from turnlog.events.content import Digest, compute_digest
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.projections.audit.export.bundle_format import CHECKPOINT_FILE
from turnlog.projections.audit.verify.hash_chain import format_root, parse_digest
from turnlog.projections.audit.verify.merkle_tree import compute_tree_root
from turnlog.projections.audit.verify.session_verification import verify_session
from turnlog.projections.audit.verify.signed_checkpoints import (
    ROOTED_FORMAT,
    AuditCheckpoint,
    CheckpointHead,
    SignedCheckpoint,
)
from turnlog.services.audit.chain_scan import LocatedFinding
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.bundle.verifier import EXIT_FAILED, EXIT_UNWITNESSED, main
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

SOUND = BundleCopy.read_bundle(get_version_folder())
every = pytest.mark.parametrize("tampering", TAMPERINGS.values(), ids=TAMPERINGS)


@pytest.fixture
def copy() -> BundleCopy:
    return SOUND.copy_bundle()


@pytest.fixture(scope="module")
def checkpoint() -> SignedCheckpoint:
    """The heads of all sessions before the tampering."""
    heads = {
        session: CheckpointHead(
            sequence=len(lines),
            hash=compute_digest(lines[-1]),
            root=format_root(
                compute_tree_root(parse_digest(compute_digest(each)) for each in lines)
            ),
        )
        for session, lines in SOUND.sessions.items()
    }
    taken = AuditCheckpoint(
        format=ROOTED_FORMAT,
        at="2026-11-22T05:00:00Z",
        tenant="golden",
        stream="SESSIONS",
        created="1970-01-01T00:00:00Z",
        end=200,
        sessions=heads,
        library={},
    )
    return sign_checkpoint(taken, Ed25519PrivateKey.generate())


def compute_events_root(lines: Sequence[bytes]) -> Digest:
    return format_root(compute_tree_root(parse_digest(compute_digest(each)) for each in lines))


def add_checkpoint(copy: BundleCopy, checkpoint: SignedCheckpoint) -> BundleCopy:
    copy.extra_files[CHECKPOINT_FILE] = checkpoint.model_dump_json().encode()
    return copy


def select_two_sessions(checkpoint: SignedCheckpoint) -> AuditCheckpoint:
    """Give of a checkpoint what it says of the two sessions that are tampered with."""
    noted = {session: checkpoint.checkpoint.sessions[session] for session in (TUTOR, GAME)}
    return checkpoint.checkpoint.model_copy(update={"sessions": noted})


def find_first_fault(found: Sequence[LocatedFinding], session: str) -> int:
    """Give the first event of a session that something is wrong with."""
    return min(
        filter(
            None, (each.finding.sequence for each in found if each.key and each.key[1] == session)
        )
    )


@every
def test_bundle_verifier_finds_tampering_and_names_the_first_bad_event(
    tampering: TamperingCase,
    copy: BundleCopy,
    checkpoint: SignedCheckpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tampering.apply_to(add_checkpoint(copy, checkpoint))
    assert main(copy.write_bundle(tmp_path), []) == EXIT_FAILED
    *lines, verdict = capsys.readouterr().out.splitlines()
    named = [line for line in lines if "FAILED" in line and f"session {tampering.session}" in line]
    first = tampering.bundle_event or tampering.event
    assert any(f"event {first}: " in line for line in named), lines
    assert verdict == "NOT VERIFIED"


@every
@pytest.mark.tampers
@pytest.mark.promise("P17")
async def test_log_verification_finds_tampering_and_names_the_first_bad_event(
    tampering: TamperingCase, copy: BundleCopy, checkpoint: SignedCheckpoint, tmp_path: Path
) -> None:
    tampering.apply_to(copy)
    log = build_memory_log(copy, SOUND, (TUTOR, GAME))
    witness = select_two_sessions(checkpoint)
    found = await list_findings(
        copy, log=log, blobs=build_memory_blobs(copy), witness=witness, folder=tmp_path
    )
    assert find_first_fault(found, tampering.session) == tampering.event, found


@pytest.mark.slow("whole logs are verified")
@pytest.mark.promise("P17")
async def test_tampering_in_recreated_server_streams_is_found_as_in_a_memory_log(
    checkpoint: SignedCheckpoint, tmp_path: Path
) -> None:
    done = {"nothing at all": SOUND.copy_bundle()}
    for name, tampering in TAMPERINGS.items():
        tampering.apply_to(done.setdefault(name, SOUND.copy_bundle()))
    faults: dict[str, int] = {}
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        for name, copy in done.items():
            await replace_streams(on, copy, SOUND, (TUTOR, GAME))
            found = await list_findings(
                copy,
                log=on.log,
                blobs=on.blobs,
                witness=select_two_sessions(checkpoint),
                folder=tmp_path,
            )
            if found:
                faults[name] = find_first_fault(found, TUTOR)
    assert faults == {name: tampering.event for name, tampering in TAMPERINGS.items()}


def test_unaltered_bundle_is_verified(
    copy: BundleCopy,
    checkpoint: SignedCheckpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(add_checkpoint(copy, checkpoint).write_bundle(tmp_path), []) == 0
    assert "FAILED" not in capsys.readouterr().out


@pytest.mark.tampers
async def test_unaltered_log_has_no_findings(
    copy: BundleCopy, checkpoint: SignedCheckpoint, tmp_path: Path
) -> None:
    log = build_memory_log(copy, SOUND, tuple(copy.sessions))
    assert (
        await list_findings(
            copy,
            log=log,
            blobs=build_memory_blobs(copy),
            witness=checkpoint.checkpoint,
            folder=tmp_path,
        )
        == []
    )


@pytest.mark.parametrize("tampering", [each for each in TAMPERINGS.values() if each.is_consistent])
def test_completely_rewritten_bundle_without_a_checkpoint_is_unwitnessed(
    tampering: TamperingCase, copy: BundleCopy, tmp_path: Path
) -> None:
    tampering.apply_to(copy)
    assert main(copy.write_bundle(tmp_path), []) == EXIT_UNWITNESSED


@pytest.mark.tampers
async def test_rewritten_manifest_that_reads_back_is_found_by_reassembly(
    copy: BundleCopy, tmp_path: Path
) -> None:
    TAMPERINGS["everything written anew"].apply_to(copy)
    report = verify_session(copy.read_events(TUTOR), copy.read_texts(), get_verification_means())
    assert [each.check for each in report.findings] == ["assembly"]
    assert "part safety" in report.findings[0].detail
    log = build_memory_log(copy, SOUND, (TUTOR,))
    found = await list_findings(
        copy, log=log, blobs=build_memory_blobs(copy), witness=None, folder=tmp_path
    )
    assert {each.finding.sequence for each in found} == {6}


def test_edited_or_foreign_signed_checkpoint_is_found(
    copy: BundleCopy,
    checkpoint: SignedCheckpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    later = checkpoint.checkpoint.model_copy(update={"at": "2026-11-23T05:00:00Z"})
    edited = checkpoint.model_copy(update={"checkpoint": later})
    assert main(add_checkpoint(copy, edited).write_bundle(tmp_path), []) == EXIT_FAILED
    assert "the signature is not that of" in capsys.readouterr().out
    again = sign_checkpoint(later, Ed25519PrivateKey.generate())
    folder = add_checkpoint(copy, again).write_bundle(tmp_path)
    assert main(folder, []) == 0, "whose key it is, only the reader can know"
    assert main(folder, ["--key", checkpoint.signatures[0].key]) == EXIT_FAILED
    assert "it is not signed by" in capsys.readouterr().out
    unsigned = again.model_copy(update={"signatures": ()})
    assert main(add_checkpoint(copy, unsigned).write_bundle(tmp_path), []) == EXIT_FAILED
    assert "it is not signed by anybody" in capsys.readouterr().out


def test_missing_checkpoint_fails_verification_with_a_key(copy: BundleCopy, tmp_path: Path) -> None:
    assert main(copy.write_bundle(tmp_path), ["--key", "AAAA"]) == EXIT_FAILED
