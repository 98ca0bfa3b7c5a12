"""The stand-alone verifier on forged bundles."""

from __future__ import annotations

import ast
import json
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from turnlog.events.ids import ID_PATTERN
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.bundle import verifier
from turnlog.services.bundle.bundle_zip import VerifierName, build_verifier
from turnlog.services.bundle.check_lines import compute_digest, encode_canonical
from turnlog.services.bundle.verifier import (
    EXIT_FAILED,
    EXIT_UNWITNESSED,
    MAX_FILE,
    MAX_LINE,
    main,
)

KEY = Ed25519PrivateKey.generate()

SIGNER = b64encode(KEY.public_key().public_bytes_raw()).decode()

Json = dict[str, Any]


def build_event_line(session: str) -> bytes:
    event: Json = {"sequence": 1, "tenant": "t", "subject": session, "type": "x", "data": {}}
    return json.dumps(event).encode()


def write_bundle(folder: Path, sessions: Sequence[str], checkpoint: Json | None = None) -> Path:
    """Write a bundle of sessions of one event each, with a signed checkpoint."""
    (folder / "sessions").mkdir()
    for session in sessions:
        (folder / "sessions" / f"{session}.ndjson").write_bytes(build_event_line(session) + b"\n")
    stated = [
        {"session": each, "events": 1, "head": compute_digest(build_event_line(each))}
        for each in sessions
    ]
    listed = {"tenant": "t", "sessions": stated, "blobs": []}
    (folder / "manifest.json").write_text(json.dumps(listed))
    if checkpoint is not None:
        signature = b64encode(KEY.sign(encode_canonical(checkpoint))).decode()
        signed = {"algorithm": "ed25519", "key": SIGNER, "signature": signature}
        kept = {"checkpoint": checkpoint, "signatures": [signed]}
        (folder / "checkpoint.json").write_text(json.dumps(kept))
    return folder


def build_checkpoint(tenant: str, *sessions: str) -> Json:
    heads = {
        each: {"sequence": 1, "hash": compute_digest(build_event_line(each))} for each in sessions
    }
    return {"at": "2026-01-01T00:00:00Z", "tenant": tenant, "sessions": heads}


@pytest.mark.promise("P17")
def test_verifying_with_a_key_fails_for_session_without_signature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bundle(tmp_path, ["signed", "forged"], build_checkpoint("t", "signed"))
    assert main(folder, []) == EXIT_UNWITNESSED
    printed = capsys.readouterr().out.splitlines()
    assert any("1 of the sessions as noted" in line for line in printed)
    assert printed[-2:] == ["  --    session forged: events 1 to 1 are not signed", "UNWITNESSED"]
    assert main(folder, ["--key", SIGNER]) == EXIT_FAILED
    assert "session forged: nothing of it is signed" in capsys.readouterr().out


def test_signed_sessions_pass_verification_with_their_key(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, ["one", "two"], build_checkpoint("t", "one", "two"))
    assert main(folder, ["--key", SIGNER]) == 0


@pytest.mark.promise("P17")
def test_bundle_whose_signature_was_removed_is_unwitnessed_and_never_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bundle(tmp_path, ["one"], build_checkpoint("t", "one"))
    assert main(folder, []) == 0
    forged = build_event_line("one").replace(b'"x"', b'"y"')
    (folder / "sessions" / "one.ndjson").write_bytes(forged + b"\n")
    stated = {"session": "one", "events": 1, "head": compute_digest(forged)}
    change_manifest(folder, sessions=[stated])
    assert main(folder, []) == EXIT_FAILED
    (folder / "checkpoint.json").unlink()
    capsys.readouterr()
    assert main(folder, []) == EXIT_UNWITNESSED
    *_, reason, verdict = capsys.readouterr().out.splitlines()
    assert reason == "  --    checkpoint: there is none, so nothing here is signed"
    assert verdict == "UNWITNESSED"


@pytest.mark.promise("P17")
def test_events_behind_the_checkpoint_are_named_as_unwitnessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bundle(tmp_path, ["one"], build_checkpoint("t", "one"))
    first = build_event_line("one")
    added = json.loads(first) | {"sequence": 2, "prevhash": compute_digest(first)}
    second = json.dumps(added).encode()
    (folder / "sessions" / "one.ndjson").write_bytes(first + b"\n" + second + b"\n")
    stated = {"session": "one", "events": 2, "head": compute_digest(second)}
    change_manifest(folder, sessions=[stated])
    assert main(folder, ["--key", SIGNER]) == EXIT_UNWITNESSED
    assert "session one: events 2 to 2 are not signed" in capsys.readouterr().out


def test_session_that_was_removed_from_the_manifest_is_found_by_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bundle(tmp_path, ["one", "two"], build_checkpoint("t", "one", "two"))
    listed = json.loads((folder / "manifest.json").read_text())
    change_manifest(folder, sessions=listed["sessions"][:1])
    assert main(folder, []) == EXIT_FAILED
    assert "sessions/two.ndjson: the manifest does not name it" in capsys.readouterr().out


def test_checkpoint_of_another_tenant_fails_verification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(write_bundle(tmp_path, ["one"], build_checkpoint("other", "one")), []) == EXIT_FAILED
    )
    assert "tenant other" in capsys.readouterr().out


def test_empty_bundle_fails_verification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(write_bundle(tmp_path, []), []) == EXIT_FAILED
    assert "\nverified" not in capsys.readouterr().out


@pytest.mark.parametrize("call", [("nobody", "1.1"), ("one", "1.1")])
def test_verifying_a_missing_prompt_fails_and_names_session_and_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: tuple[str, str]
) -> None:
    assert main(write_bundle(tmp_path, ["one"]), ["--prompt", *call]) == EXIT_FAILED
    assert f"session {call[0]} has no call 1.1" in capsys.readouterr().out


@pytest.mark.parametrize("listed", ["{}", "[]", "no JSON", '{"blobs": [], "sessions": [{}]}'])
def test_invalid_manifest_fails_verification_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listed: str
) -> None:
    (tmp_path / "manifest.json").write_text(listed)
    assert main(tmp_path, []) == EXIT_FAILED
    assert capsys.readouterr().out.splitlines()[-1].startswith("FAILED")


@pytest.mark.parametrize(
    ("missing_file", "message"),
    [
        ("manifest.json", "FAILED  manifest.json: No such file or directory"),
        ("sessions/one.ndjson", "FAILED  session one: one.ndjson: No such file or directory"),
    ],
)
def test_missing_bundle_file_is_reported_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing_file: str, message: str
) -> None:
    (write_bundle(tmp_path, ["one"]) / missing_file).unlink()
    assert main(tmp_path, []) == EXIT_FAILED
    assert message in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("manifest.json", "manifest.json"),
        ("sessions/one.ndjson", "session one: event 1"),
        ("checkpoint.json", "checkpoint: checkpoint.json"),
    ],
)
def test_json_nested_too_deep_is_reported_as_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, what: str
) -> None:
    (write_bundle(tmp_path, ["one"]) / file).write_text('{"a":' + "[" * 200_000)
    assert main(tmp_path, []) == EXIT_FAILED
    assert f"FAILED  {what}: it is nested too deep" in capsys.readouterr().out.splitlines()


def test_session_name_cannot_forge_an_output_line_or_send_terminal_controls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bundle(tmp_path, ["one"])
    listed = json.loads((folder / "manifest.json").read_text())
    listed["sessions"][0]["session"] = "one\n  ok    session two: \x1b[2Jall is well"
    (folder / "manifest.json").write_text(json.dumps(listed))
    assert main(folder, []) == EXIT_FAILED
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert [each[:6] for each in output.splitlines()] == [
        "FAILED",
        "  ok  ",
        "FAILED",
        "  --  ",
        "NOT VE",
    ]


PROGRAMS: dict[VerifierName, set[str]] = {
    "verifier": {"main", "is_signed", "condense_run", "summarise_heads"},
    "proof_verifier": {"verify_proof", "is_signed", "compute_root", "run_check"},
    "consistency_verifier": {"verify_consistency", "is_signed", "compute_both_roots"},
    "forgetting_verifier": {"verify_forgetting", "check_record", "is_signed", "decrypt_box"},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_bundled_verifier_imports_only_stdlib_and_defines_each_name_once(
    program: VerifierName,
) -> None:
    modules, names = list[str](), list[str]()
    for node in ast.parse(build_verifier(program)).body:
        match node:
            case ast.Import():
                modules += [each.name for each in node.names]
            case ast.ImportFrom():
                modules.append(str(node.module))
            case ast.FunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Assign():
                names += [each.id for each in ast.walk(node) if is_assigned_name(each)]
            case _:
                pass
    assert {each.partition(".")[0] for each in modules} <= sys.stdlib_module_names
    assert PROGRAMS[program] <= set(names)
    assert sorted(names) == sorted(set(names))


def is_assigned_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def test_verifier_has_the_forms_and_the_replacement_of_the_product() -> None:
    assert verifier.SESSION_FORM.pattern == ID_PATTERN
    text = "a\0b\ud800c\udfffd\U0001f600"
    assert verifier.UNSTORABLE.sub("\ufffd", text) == replace_unstorable(text)


def change_manifest(folder: Path, **fields: object) -> Path:
    file = folder / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    return folder


def link_blob(folder: Path) -> None:
    (folder / "blobs").mkdir()
    (folder / "blobs" / f"sha256-{'0' * 64}").symlink_to("/dev/zero")
    change_manifest(folder, blobs=[f"sha256:{'0' * 64}"])


def link_blob_folder(folder: Path) -> None:
    (folder / "blobs").symlink_to("/dev")
    change_manifest(folder, blobs=[f"sha256:{'0' * 64}"])


def link_session_folder(folder: Path) -> None:
    (folder / "sessions").rename(folder / "elsewhere")
    (folder / "sessions").symlink_to(folder / "elsewhere")


def make_pipe(folder: Path) -> None:
    (folder / "sessions" / "one.ndjson").unlink()
    os.mkfifo(folder / "sessions" / "one.ndjson")


def write_endless_line(folder: Path) -> None:
    with (folder / "sessions" / "one.ndjson").open("wb") as file:
        file.truncate(10 * MAX_LINE)  # A sparse file without a newline


def write_huge_blob(folder: Path) -> None:
    (folder / "blobs").mkdir()
    with (folder / "blobs" / f"sha256-{'0' * 64}").open("wb") as file:
        file.truncate(100 * MAX_FILE)
    change_manifest(folder, blobs=[f"sha256:{'0' * 64}"])


HOSTILE_BUNDLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a blob that names a device": (
        lambda folder: change_manifest(folder, blobs=["/dev/zero"]),
        "it is not named by a digest",
    ),
    "a blob that names a file outside": (
        lambda folder: change_manifest(folder, blobs=["../../../etc/passwd"]),
        "it is not named by a digest",
    ),
    "a blob that is no text": (
        lambda folder: change_manifest(folder, blobs=[7]),
        "it is malformed",
    ),
    "a session that names a file outside": (
        lambda folder: change_manifest(folder, sessions=[{"session": "../../etc/x"}]),
        "it is not named by the id of a session",
    ),
    "a blob that is a link": (link_blob, "it is a link"),
    "a folder of blobs that is a link": (link_blob_folder, "it is a link"),
    "a folder of sessions that is a link": (link_session_folder, "it is a link"),
    "a session that is a pipe": (make_pipe, "it is not a file"),
    "a line without end": (write_endless_line, "a line is longer than"),
    "a blob of gigabytes": (write_huge_blob, "it is larger than"),
}


@pytest.mark.parametrize("name", HOSTILE_BUNDLES)
def test_hostile_bundle_is_refused_and_nothing_outside_it_is_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, message = HOSTILE_BUNDLES[name]
    prepare(write_bundle(tmp_path, ["one"]))
    assert main(tmp_path, []) == EXIT_FAILED
    printed = capsys.readouterr().out
    assert message in printed
    assert "\nverified" not in printed
