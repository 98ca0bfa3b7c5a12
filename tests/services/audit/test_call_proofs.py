"""Proofs of calls: a stranger verifies one with a single file, and whatever is altered is found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.support.processes.service_connection import connect_service
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.export.proof_format import PROOF_BYTES, CallProof
from turnlog.projections.audit.verify.hash_chain import format_root, parse_digest
from turnlog.projections.audit.verify.merkle_tree import compute_tree_root
from turnlog.projections.audit.verify.signed_checkpoints import (
    ROOTED_FORMAT,
    AuditCheckpoint,
    CheckpointHead,
    SignedCheckpoint,
    build_session_witness,
)
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.bundle.proof_verifier import verify_proof
from turnlog.services.cli.actions.proof_files import ProofFiles, create_proof_file
from turnlog.services.cli.checkpoints.checkpoint_files import load_signed_checkpoint
from turnlog.services.cli.client.verification_reads import fetch_checkpoint

KEY = Ed25519PrivateKey.generate()

SIGNER = b64encode(KEY.public_key().public_bytes_raw()).decode()

Json = dict[str, Any]


@dataclass(frozen=True, repr=False)
class ProvenService:
    """A service with some sessions, a checkpoint of them, and proofs."""

    stand: RunningGateway
    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.json"

    async def take_checkpoint(self, file: Path) -> Path:
        """Sign what the service notes now."""
        taken = await fetch_checkpoint(connect_service(self.stand.http))
        return write_text(file, sign_checkpoint(taken, KEY).model_dump_json())

    async def prove(
        self, session: str, call: str, file: Path, checkpoint: Path, *, whole: bool = False
    ) -> Json:
        """Write a proof as `turnlog prove` does, and return it."""
        files = ProofFiles(
            proof=file, checkpoint=checkpoint, verifier=file.with_name("verify_proof.py")
        )
        await create_proof_file(connect_service(self.stand.http), session, call, files, whole=whole)
        return read_proof(file)


def write_text(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def read_proof(file: Path) -> Json:
    proof: Json = json.loads(file.read_bytes())
    return proof


async def submit_turn(stand: RunningGateway, session: str, text: str, reply: str) -> None:
    stand.model.scripts = [[reply]]
    answer = await stand.http.post(f"/v1/sessions/{session}/turns?wait=60", json={"text": text})
    assert answer.status_code == 200, answer.text


async def play(stand: RunningGateway, session: str, *texts: str) -> None:
    await stand.open_session("assistant", session=session)
    for text in texts:
        await submit_turn(stand, session, text, f"You said {text}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProvenService]:
    folder = tmp_path_factory.mktemp("proven")
    async with start_service(MemoryBackend(), "golden", folder) as stand:
        proven = ProvenService(stand, folder)
        await play(stand, "case", "My name is Ada.", "What is my name?", "Are you sure?")
        await play(stand, "other", "Hello!", "What is my name?")
        await play(stand, "third", "Hm")
        await proven.take_checkpoint(proven.checkpoint)
        (folder / "proofs").mkdir()
        await proven.prove("case", "2.1", folder / "proofs" / "proof.json", proven.checkpoint)
        yield proven


@pytest.fixture
def proof(house: ProvenService) -> Json:
    return read_proof(house.folder / "proofs" / "proof.json")


def check(proof: Json, folder: Path, *words: str) -> int:
    file = folder / "altered.json"
    file.write_text(json.dumps(proof))
    return verify_proof([str(file), *words])


def run_verifier(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the one file as a stranger does: nothing installed, no variables, no shell."""
    command = [sys.executable, "-I", "-S", "verify_proof.py", *words]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_stranger_verifies_a_proof_with_one_file_in_an_empty_directory(
    house: ProvenService, proof: Json, tmp_path: Path
) -> None:
    for name in ("proof.json", "verify_proof.py"):
        (tmp_path / name).write_bytes((house.folder / "proofs" / name).read_bytes())
    assert (tmp_path / "proof.json").stat().st_size < PROOF_BYTES
    ran = run_verifier(tmp_path, "proof.json", "--key", SIGNER, "--show")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines, shown = ran.stdout.split("verified\n", 1)
    assert [line[:6] for line in lines.splitlines()] == ["  ok  "] * 4
    assert "My name is Ada." in shown, "it is in the prompt of the second turn"
    prompt = await house.stand.fetch_json("/v1/sessions/case/calls/2.1/prompt")
    assert json.loads(proof["request"])["messages"] == prompt["messages"]
    types = [json.loads(each["stored"])["type"].split(".")[1] for each in proof["events"]]
    assert types == ["turn-submitted", "attempt-started", "context-assembled", "turn-completed"]


def iterate_values(value: Any, *path: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401
    """Yield each text and number in a JSON value, with its place."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    found: Any = cast("Any", value)
    for name in found if isinstance(value, dict) else range(len(found)):
        yield from iterate_values(found[name], *path, name)


def alter_value(value: Any, at: float) -> Any:  # noqa: ANN401 - JSON of any shape
    if isinstance(value, str):
        place = int(at * (len(value) - 1))
        other = "a" if value[place] != "a" else "b"
        return value[:place] + other + value[place + 1 :]
    return value + 1


def put_value(proof: Json, path: tuple[Any, ...], value: Any) -> Json:  # noqa: ANN401
    altered = json.loads(json.dumps(proof))
    place = altered
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return dict(altered)


@pytest.mark.slow("checks a signature in pure Python over a hundred times")
@pytest.mark.promise("P17")
def test_every_altered_value_of_a_proof_is_found(
    proof: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = list(iterate_values(proof))
    names = {path[0] for path, _ in values}
    assert names == set(proof), "each field has a value that is altered"
    for path, value in values:
        for at in (0.4, 1.0):
            altered = put_value(proof, path, alter_value(value, at))
            assert check(altered, tmp_path) == 5, (path, at)
            assert "\nverified" not in capsys.readouterr().out, path


def test_fields_that_lack_or_are_added_are_found(proof: Json, tmp_path: Path) -> None:
    objects: tuple[tuple[Any, ...], ...] = (
        *((), ("head",), ("events", 0)),
        *(("signatures", 0), ("checkpoint",)),
    )
    for place in objects:
        found: Any = proof
        for name in place:
            found = found[name]
        for name in found:
            rest = {key: value for key, value in found.items() if key != name}
            altered = put_value(proof, place, rest) if place else rest
            assert check(altered, tmp_path) == 5, (place, name)
        more = {**found, "name": "other"}
        assert check(put_value(proof, place, more) if place else more, tmp_path) == 5, place


def test_bytes_altered_at_random_are_found_unless_they_spell_the_same(
    house: ProvenService, proof: Json, tmp_path: Path
) -> None:
    raw = (house.folder / "proofs" / "proof.json").read_bytes()
    chosen = random.Random(7)  # noqa: S311 - no secret depends on it
    for _ in range(40):
        altered = bytearray(raw)
        altered[chosen.randrange(len(raw) - 1)] ^= 1 << chosen.randrange(8)
        (tmp_path / "altered.json").write_bytes(altered)
        if verify_proof([str(tmp_path / "altered.json")]) == 0:
            assert json.loads(altered) == proof


def repeat_field(raw: str) -> str:
    return raw.replace('"session":"case"', '"session":"other","session":"case"', 1)


def test_field_that_occurs_twice_is_refused(proof: Json, tmp_path: Path) -> None:
    file = tmp_path / "twice.json"
    raw = repeat_field(json.dumps(proof, separators=(",", ":")))
    assert raw.count('"session":"other"') == 1
    file.write_text(raw)
    assert verify_proof([str(file)]) == 5


def respell(text: str) -> str:
    """Return base64 with other bits where the last character has none of the bytes."""
    digits = text.rstrip("=")
    other = f"{digits[:-1]}{chr(ord(digits[-1]) + 1)}{'=' * (len(text) - len(digits))}"
    assert b64decode(other, validate=True) == b64decode(text)
    return other


MOVES: dict[str, Callable[[Json, Json], Json]] = {
    "another session": lambda proof, _: {**proof, "session": "other"},
    "another call": lambda proof, _: {**proof, "call": "1.1"},
    "the head of another session": lambda proof, other: {**proof, "head": other["head"]},
    "the place of another session": lambda proof, other: {
        **proof,
        **{name: other[name] for name in ("session", "head", "position", "heads_path")},
    },
    "the events of another session": lambda proof, other: {
        **proof,
        **{name: other[name] for name in ("events", "path", "request")},
    },
    "the request of another session": lambda proof, other: {**proof, "request": other["request"]},
    "events in another order": lambda proof, _: {**proof, "events": proof["events"][::-1]},
    "a signature in another spelling": lambda proof, _: put_value(
        proof, ("signatures", 0, "signature"), respell(proof["signatures"][0]["signature"])
    ),
    "a key in another spelling": lambda proof, _: put_value(
        proof, ("signatures", 0, "key"), respell(proof["signatures"][0]["key"])
    ),
    "a path that is no list": lambda proof, _: {**proof, "path": dict.fromkeys(proof["path"])},
    "no events": lambda proof, _: {**proof, "events": []},
    "no signature": lambda proof, _: {**proof, "signatures": []},
    "a node more": lambda proof, _: {**proof, "path": [*proof["path"], "00" * 32]},
    "a node less": lambda proof, _: {**proof, "path": proof["path"][:-1]},
    "nodes in capitals": lambda proof, _: {
        **proof,
        "path": [each.upper() for each in proof["path"]],
    },
    "a number that is true": lambda proof, _: {**proof, "position": False},
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", MOVES)
async def test_proof_that_was_moved_or_put_together_otherwise_is_found(
    house: ProvenService, proof: Json, tmp_path: Path, name: str
) -> None:
    other = await house.prove("other", "2.1", tmp_path / "other.json", house.checkpoint)
    assert check(other, tmp_path) == check(proof, tmp_path) == 0
    moved = MOVES[name](proof, other)
    assert check(moved, tmp_path) == 5


def build_event(sequence: int, kind: str, **fields: Any) -> Json:  # noqa: ANN401
    """Build an event of session `case`, whose fields may be replaced."""
    event = {"tenant": "golden", "subject": "case", "sequence": sequence}
    return event | {"type": f"turnlog.{kind}.v1", "data": {"turn": 1, "call": "1.1"}} | fields


ASSEMBLED = {"turn": 1, "call": "1.1", "manifest": {"digest": compute_digest("{}")}}


def sign_events(last: Json, **head: str) -> Json:
    """Return a proof of call 1.1 by somebody who signs whatever he likes as its last event."""
    stored = list[str]()
    for event in (
        build_event(1, "turn-submitted", data={"turn": 1}),
        build_event(2, "context-assembled", data=ASSEMBLED),
        last,
    ):
        linked = {"prevhash": compute_digest(stored[-1])} if stored else {}
        stored.append(json.dumps(linked | event))
    digests = [parse_digest(compute_digest(each)) for each in stored]
    root = format_root(compute_tree_root(digests))
    ended = {"hash": compute_digest(stored[-1]), "root": root} | head
    checkpoint = AuditCheckpoint(
        format=ROOTED_FORMAT,
        at="2026-01-01T00:00:00Z",
        tenant="golden",
        stream="SESSIONS",
        created="2026-01-01T00:00:00Z",
        end=3,
        sessions={"case": CheckpointHead.model_validate({"sequence": 3, **ended})},
        library={},
    )
    witness = build_session_witness(sign_checkpoint(checkpoint, KEY), "case")
    assert witness is not None
    numbered = [{"sequence": at, "stored": text} for at, text in enumerate(stored, 1)]
    own = {"session": "case", "call": "1.1", "request": "{}", "events": numbered, "path": ()}
    proof = CallProof.model_validate({**witness.model_dump(), **own})
    return dict(json.loads(proof.encode_json()))


SIGNED_ODDITIES: dict[str, tuple[Json, str]] = {
    "another call": (
        build_event(3, "attempt-ended", data={"turn": 2, "call": "2.1"}),
        "event 3: it is not of call 1.1",
    ),
    "another turn": (
        build_event(3, "turn-completed", data={"turn": 2}),
        "event 3: it is not of call 1.1",
    ),
    "another session": (
        build_event(3, "turn-completed", subject="other"),
        "event 3: it belongs to another session",
    ),
    "another tenant": (
        build_event(3, "turn-completed", tenant="other"),
        "event 3: it belongs to another session",
    ),
    "another sequence": (
        build_event(4, "turn-completed"),
        "event 3: it states another sequence",
    ),
    "another chain": (
        build_event(3, "turn-completed", prevhash=compute_digest("")),
        "event 3: it does not continue the one before",
    ),
}


@pytest.mark.parametrize("name", SIGNED_ODDITIES)
def test_event_is_found_that_is_signed_and_is_not_of_the_call(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event, message = SIGNED_ODDITIES[name]
    assert check(sign_events(build_event(3, "turn-completed")), tmp_path) == 0
    assert check(sign_events(event), tmp_path) == 5
    assert message in capsys.readouterr().out


def test_head_is_found_that_is_not_its_last_event_or_has_another_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = build_event(3, "turn-completed")
    assert check(sign_events(last, hash=compute_digest("")), tmp_path) == 5
    assert "event 3: it is not the last one that was noted" in capsys.readouterr().out
    assert check(sign_events(last, root=compute_digest("")), tmp_path) == 5
    assert "its path does not lead to the root" in capsys.readouterr().out


def test_signer_and_own_request_and_checkpoint_are_compared(
    house: ProvenService, proof: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "request.json"
    own.write_text(proof["request"])
    words = ("--key", SIGNER, "--request", str(own), "--checkpoint", str(house.checkpoint))
    assert check(proof, tmp_path, *words) == 0
    assert check({**proof, "request": None}, tmp_path, "--request", str(own)) == 0
    assert check({**proof, "request": None}, tmp_path) == 0, "its digest is in the event"
    own.write_text(proof["request"] + " ")
    assert check(proof, tmp_path, "--request", str(own)) == 5
    assert check(proof, tmp_path, "--key", "somebody") == 5
    capsys.readouterr()
    assert check(proof, tmp_path, "--checkpoint", str(tmp_path / "none.json")) == 5
    assert "none.json: No such file" in capsys.readouterr().out


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_proof_from_a_rewritten_log_does_not_verify_against_an_earlier_checkpoint(
    house: ProvenService, proof: Json, tmp_path: Path
) -> None:
    async with start_service(MemoryBackend(), "golden", tmp_path) as stand:
        rewritten = ProvenService(stand, tmp_path)
        await play(stand, "case", "My name is Eve.")
        with pytest.raises(Corrupt, match="the log ends before it"):
            await rewritten.prove("case", "1.1", tmp_path / "no.json", house.checkpoint)
        for text in ("What is my name?", "Are you sure?"):
            await submit_turn(stand, "case", text, f"You said {text}")
        with pytest.raises(Corrupt, match="not those that the checkpoint notes"):
            await rewritten.prove("case", "2.1", tmp_path / "no.json", house.checkpoint)
        later = await rewritten.take_checkpoint(tmp_path / "later.json")
        forged = await rewritten.prove("case", "2.1", tmp_path / "forged.json", later)
    assert check(forged, tmp_path) == 0, "the same key has signed it"
    assert check(forged, tmp_path, "--checkpoint", str(house.checkpoint)) == 5
    signed = {name: proof[name] for name in ("checkpoint", "signatures")}
    assert check({**forged, **signed}, tmp_path) == 5
    session = {name: proof[name] for name in ("head", "position", "heads_path")}
    assert check({**forged, **signed, **session}, tmp_path) == 5


@pytest.mark.asyncio(loop_scope="module")
async def test_call_that_no_checkpoint_covers_is_refused(
    house: ProvenService, tmp_path: Path
) -> None:
    await play(house.stand, "later", "Hello!")
    with pytest.raises(Refused, match="does not note session later"):
        await house.prove("later", "1.1", tmp_path / "no.json", house.checkpoint)
    await submit_turn(house.stand, "third", "And now?", "Now")
    with pytest.raises(Refused, match=r"call 2\.1 was made after event"):
        await house.prove("third", "2.1", tmp_path / "no.json", house.checkpoint)
    await house.prove("third", "1.1", tmp_path / "yes.json", house.checkpoint)
    with pytest.raises(Refused, match="is there already"):
        await house.prove("third", "1.1", tmp_path / "yes.json", house.checkpoint)
    (tmp_path / "verify_proof.py").unlink()
    with pytest.raises(Refused, match=r"there is no call '9\.1'"):
        await house.prove("third", "9.1", tmp_path / "no.json", house.checkpoint)
    assert not (tmp_path / "no.json").exists()


@pytest.mark.asyncio(loop_scope="module")
async def test_texts_that_are_too_large_give_way_to_their_digests(
    house: ProvenService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(house.stand, "large", "A word. " * 2_000)
    checkpoint = await house.take_checkpoint(tmp_path / "checkpoint.json")
    small = await house.prove("large", "1.1", tmp_path / "small.json", checkpoint)
    (tmp_path / "verify_proof.py").unlink()
    whole = await house.prove("large", "1.1", tmp_path / "whole.json", checkpoint, whole=True)
    assert (tmp_path / "small.json").stat().st_size <= PROOF_BYTES
    assert small["request"] is None
    hashed = [each["sequence"] for each in small["events"] if "hash" in each]
    large = [each["sequence"] for each in whole["events"] if len(each["stored"]) > 16_000]
    assert hashed == large, "what was submitted, and the reply that repeats it"
    assert len(large) == 2
    assert len(whole["request"]) > 16_000
    assert all("stored" in each for each in whole["events"])
    capsys.readouterr()
    assert check(small, tmp_path) == 0
    assert "2 in the session's chain, 2 by digest" in capsys.readouterr().out
    assert check(whole, tmp_path) == 0
    assert check({**whole, "request": whole["request"].replace("A word", "A ward")}, tmp_path) == 5


@pytest.mark.asyncio(loop_scope="module")
async def test_redacted_reply_is_in_a_proof_as_in_a_bundle_and_the_sender_is_told(
    house: ProvenService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(house.stand, "secret", "Who is it?")
    answer = await house.stand.http.post(
        "/v1/sessions/secret/redactions", json={"turn": 1, "reason": "a name"}
    )
    assert answer.is_success, answer.text
    checkpoint = await house.take_checkpoint(tmp_path / "checkpoint.json")
    proof = await house.prove("secret", "1.1", tmp_path / "proof.json", checkpoint)
    assert "1 text of the session redacted after being said" in capsys.readouterr().err
    stored = [each["stored"] for each in proof["events"]]
    assert any("You said Who is it?" in each for each in stored)
    assert '"type":"turnlog.reply-redacted.v1"' in stored[-1]


V1_CHECKPOINT = (
    '{"checkpoint":{"format":"turnlog-checkpoint/1","at":"2026-11-29T12:00:00Z","tenant":"default",'
    '"stream":"SESSIONS","created":"2026-11-01T08:00:00Z","end":9,"sessions":{"case":{"sequence":9,'
    '"hash":"sha256:5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"}},'
    '"library":{}},"signatures":[{"algorithm":"ed25519",'
    '"key":"HfufOH63+zxa9Yj83c0+AR1RmQcfMSIWpPPFJP16o3Q=","signature":"PHPNVmtmVrgAwFpRANknv2WAIFTve'
    'WiTie7lT7q9JQXq7mYi56m//aY7awoqkGHMmriYuW0CYgUxJO4Z6HAwAQ=="}]}'
)
"""What a release signed that knew the first version only."""


@pytest.mark.asyncio(loop_scope="module")
async def test_checkpoint_of_the_first_version_stays_valid_and_proves_no_call(
    house: ProvenService, tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    old.write_text(V1_CHECKPOINT)
    noted = load_signed_checkpoint(old, "HfufOH63+zxa9Yj83c0+AR1RmQcfMSIWpPPFJP16o3Q=")
    assert noted.sessions["case"].sequence == 9
    old.write_text(V1_CHECKPOINT.replace('"sequence":9', '"sequence":8'))
    with pytest.raises(Corrupt):
        load_signed_checkpoint(old, None)
    old.write_text(V1_CHECKPOINT)
    with pytest.raises(Refused, match="an earlier release made it"):
        await house.prove("case", "1.1", tmp_path / "no.json", old)


def test_checkpoint_without_a_root_in_each_head_is_none_of_the_second_version(
    house: ProvenService,
) -> None:
    made: Json = json.loads(house.checkpoint.read_bytes())
    del made["checkpoint"]["sessions"]["case"]["root"]
    with pytest.raises(ValueError, match="has a root in each head"):
        SignedCheckpoint.model_validate(made)
    with pytest.raises(ValueError, match="has no root in each head"):
        SignedCheckpoint.model_validate_json(
            house.checkpoint.read_bytes().replace(b"checkpoint/2", b"checkpoint/1")
        )


@pytest.mark.asyncio(loop_scope="module")
async def test_root_of_a_checkpoint_is_compared_when_the_log_is_verified(
    house: ProvenService,
) -> None:
    checkpoint: Json = json.loads(house.checkpoint.read_bytes())["checkpoint"]
    checkpoint["sessions"]["case"]["root"] = checkpoint["sessions"]["other"]["root"]
    answer = await house.stand.http.post("/v1/verify", json=checkpoint)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    found = [line["finding"]["detail"] for line in lines if line["kind"] == "finding"]
    assert found == ["the events up to it are not those of the noted root"]
