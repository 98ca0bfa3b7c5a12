"""A stranger holds a bundle against the signed receipt of an erasure, and every lie is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.e2e.test_erased_words import SECRET, add_turns, erase, run_turns
from tests.support.processes.process_host import run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.services.audit.checkpoint_signatures import load_or_create_key, sign_bytes
from turnlog.services.bundle.forgetting_verifier import MAX_RECEIPT, verify_forgetting

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

Json = Any


@dataclass(frozen=True, kw_only=True, repr=False)
class ForgottenTurn:
    """A folder with what a stranger gets after turn 2 of a session with a fork was erased."""

    folder: Path
    session: str
    fork: str
    begun: int
    whole: str
    """Another session, which was erased as a whole."""

    @property
    def key(self) -> Ed25519PrivateKey:
        return load_or_create_key(self.folder / "key.pem")

    @property
    def signer(self) -> str:
        return b64encode(self.key.public_key().public_bytes_raw()).decode()

    def copy_to(self, folder: Path) -> ForgottenTurn:
        """Return a copy for a test that alters it."""
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    def read_receipt(self) -> Json:
        return json.loads((self.folder / "receipt.json").read_bytes())

    def write_receipt(self, signed: Json) -> None:
        (self.folder / "receipt.json").write_text(json.dumps(signed))

    def state_receipt(self, alter: Callable[[Json], object]) -> None:
        """Alter what the receipt states, and sign it as a dishonest operator would."""
        signed = self.read_receipt()
        alter(signed["receipt"])
        signature = sign_bytes(encode_canonical(signed["receipt"]).encode(), self.key)
        self.write_receipt({**signed, "signatures": [signature.model_dump()]})

    def alter_part(self, alter: Callable[[Json], object]) -> None:
        """Do so with what it states of the session itself."""
        self.state_receipt(lambda receipt: alter(receipt["sessions"][0]))

    def alter_manifest(self, alter: Callable[[Json], object]) -> None:
        file = self.folder / "bundle/manifest.json"
        listed = json.loads(file.read_bytes())
        alter(listed)
        file.write_text(json.dumps(listed))

    def alter_lines(self, alter: Callable[[list[bytes]], object]) -> None:
        file = self.folder / f"bundle/sessions/{self.session}.ndjson"
        lines = file.read_bytes().splitlines(keepends=True)
        alter(lines)
        file.write_bytes(b"".join(lines))

    def check(self, *words: str) -> int:
        places = (self.folder / "bundle", self.folder / "receipt.json")
        return verify_forgetting([*words, *map(str, places)])


async def run_command(up: TurnlogUp, *words: str) -> str:
    url = str(up.service.http.base_url)
    code, printed, errors = await run_turnlog(*words, "--url", url)
    assert code == 0, errors
    return printed


async def export(up: TurnlogUp, folder: Path, *sessions: str) -> Path:
    await run_command(up, "export", *sessions, "--bundle", str(folder))
    return folder


async def sign(up: TurnlogUp, file: Path, session: str, begun: int, *options: str) -> None:
    """Sign a receipt as an operator does."""
    verifier = file.with_name("verify_forgetting.py")
    if not verifier.exists():
        options = (*options, "--verifier", str(verifier))
    files = (str(file), "--key", str(file.with_name("key.pem")))
    await run_command(up, "receipt", session, str(begun), *files, *options)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def made(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> ForgottenTurn:
    http, folder = sealed_up.service.http, tmp_path_factory.mktemp("forgotten")
    texts = ("the tide", f"my name is {SECRET}", "the berth", "the crew")
    session = await run_turns(sealed_up, provider, *texts)
    end = (await sealed_up.service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = str(forked.json()["session"])
    await add_turns(sealed_up, provider, fork, "the reef")
    await export(sealed_up, folder / "before", session, fork)
    begun = int((await erase(sealed_up, session, turn=2))["erasure"])
    await add_turns(sealed_up, provider, session, "the wind")
    await sign(sealed_up, folder / "receipt.json", session, begun, "--with-keys")
    whole = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    end = int((await erase(sealed_up, whole))["erasure"])
    await sign(sealed_up, folder / "whole.json", whole, end)
    await export(sealed_up, folder / "bundle", session, fork, whole)
    return ForgottenTurn(folder=folder, session=session, fork=fork, begun=begun, whole=whole)


@pytest.fixture
def forgotten(made: ForgottenTurn, tmp_path: Path) -> ForgottenTurn:
    """The same for one test alone."""
    return made.copy_to(tmp_path / "copy")


def run_stranger(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the one file as a stranger does: nothing installed, no variables, no shell."""
    command = [sys.executable, "-I", "-S", "verify_forgetting.py", *words]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)


async def test_stranger_sees_that_a_turn_is_forgotten_with_one_file_and_no_network(
    made: ForgottenTurn,
) -> None:
    ran = run_stranger(made.folder, "bundle", "receipt.json", "--key", made.signer)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for session, calls in ((made.session, 3), (made.fork, 4)):
        named = ", ".join(f"{turn}.1" for turn in range(2, 2 + calls))
        had = f"prompts of {session}: {calls} had the words and cannot be rebuilt: {named};"
        assert had in ran.stdout
    kept = "22, of everything but what was submitted with turn 2, what came of turn 2,"
    assert f"keys left of {made.session}: {kept}" in ran.stdout
    assert "nobody can show: what the providers of models and of tools keep" in ran.stdout
    assert ran.stdout.endswith("\nforgotten\n")
    assert (made.folder / "receipt.json").stat().st_size < 20_000


async def test_stranger_sees_that_a_whole_session_is_forgotten_and_that_no_key_is_left(
    made: ForgottenTurn,
) -> None:
    ran = run_stranger(made.folder, "bundle", "whole.json", "--key", made.signer)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"keys left of {made.whole}: none, as the record notes" in ran.stdout
    (part,) = json.loads((made.folder / "whole.json").read_bytes())["receipt"]["sessions"]
    assert part["calls"] == ["1.1", "2.1"]
    assert {"turnlog.session-opened.v1", "turnlog.turn-submitted.v1"} <= {
        each["type"] for each in part["events"]
    }


async def test_receipt_of_an_erasure_is_shown_after_later_ones_too(
    sealed_up: TurnlogUp,
    provider: OpenAIServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = await run_turns(sealed_up, provider, "one", "two", "three")
    first = int((await erase(sealed_up, session, turn=1, of="text"))["erasure"])
    await add_turns(sealed_up, provider, session, "four", "five")
    second = int((await erase(sealed_up, session, turn=4, with_replies=True))["erasure"])
    await sign(sealed_up, tmp_path / "first.json", session, first, "--with-keys")
    await sign(sealed_up, tmp_path / "second.json", session, second, "--with-keys")
    bundle = await export(sealed_up, tmp_path / "bundle", session)
    for file in ("first.json", "second.json"):
        assert verify_forgetting([str(bundle), str(tmp_path / file)]) == 0
    assert (await erase(sealed_up, session))["status"] == "erased"
    await sign(sealed_up, tmp_path / "third.json", session, first)
    later = await export(sealed_up, tmp_path / "later", session)
    assert verify_forgetting([str(later), str(tmp_path / "third.json")]) == 0
    printed = capsys.readouterr().out
    assert "; 0 had none of them, and are as they were sent; 2 were erased otherwise" in printed
    assert verify_forgetting([str(later), str(tmp_path / "first.json")]) == 0
    assert "were erased since then, and these keys open them" in capsys.readouterr().out


async def test_installed_release_checks_a_receipt_with_the_same_result(made: ForgottenTurn) -> None:
    files = (str(made.folder / "bundle"), "--receipt", str(made.folder / "receipt.json"))
    signer = ("--signer", made.signer)
    code, printed, _ = await run_turnlog("verify", "--bundle", *files, *signer)
    assert (code, printed.splitlines()[-1]) == (0, "forgotten")
    code, _, errors = await run_turnlog("verify", *files[1:])
    assert code == 2, errors
    assert "it goes with --bundle" in errors


def name_first_event(forgotten: ForgottenTurn) -> None:
    lines = (forgotten.folder / f"bundle/sessions/{forgotten.session}.ndjson").read_bytes()
    event = json.loads(lines.splitlines()[0])
    named = {name: event[name] for name in ("sequence", "id", "type")}
    forgotten.alter_part(lambda part: part["events"].insert(0, named))


def keep_key(forgotten: ForgottenTurn) -> None:
    """State a node above an erased leaf: the one that the service would have had to remove."""

    def alter(part: Json) -> None:
        assert [(each["first"], each["last"]) for each in part["keys"][:2]] == [(0, 3), (6, 7)]
        part["keys"][1]["first"] = 4

    forgotten.alter_part(alter)


def add_words(forgotten: ForgottenTurn) -> None:
    """Put the keys of an earlier bundle into the one that was made after the erasure."""
    earlier = json.loads((forgotten.folder / "before/manifest.json").read_bytes())
    keys = {each["session"]: each["keys"] for each in earlier["sessions"]}

    def alter(listed: Json) -> None:
        (own,) = (each for each in listed["sessions"] if each["session"] == forgotten.session)
        own["keys"] = keys[forgotten.session] | own["keys"]

    forgotten.alter_manifest(alter)


def drop_key(forgotten: ForgottenTurn) -> None:
    forgotten.alter_manifest(lambda listed: listed["sessions"][0]["keys"].popitem())


def hide_keys(forgotten: ForgottenTurn) -> None:
    """State that nothing is known of the keys that are left."""
    forgotten.alter_part(lambda part: part.update(keys=[], keys_left=None))
    drop_keys(forgotten)


def state_earlier_place(forgotten: ForgottenTurn) -> None:
    """State an event of the session that is not the last one before the erasure."""
    lines = (forgotten.folder / f"bundle/sessions/{forgotten.session}.ndjson").read_bytes()
    noted = {"sequence": 3, "hash": compute_digest(lines.splitlines()[2])}
    forgotten.alter_part(lambda part: part.update(before=noted))


def add_session(forgotten: ForgottenTurn) -> None:
    """Name a session as reached that was erased for another reason."""
    other = json.loads((forgotten.folder / "whole.json").read_bytes())["receipt"]["sessions"]
    forgotten.state_receipt(lambda receipt: receipt["sessions"].extend(other))


def sign_anew(forgotten: ForgottenTurn) -> None:
    """Sign with a key of one's own."""
    (forgotten.folder / "key.pem").rename(forgotten.folder / "first.pem")
    forgotten.state_receipt(lambda _: None)


def alter_signed(forgotten: ForgottenTurn) -> None:
    signed = forgotten.read_receipt()
    signed["receipt"]["reason"] = "request 4712"
    forgotten.write_receipt(signed)


def alter_key(forgotten: ForgottenTurn) -> None:
    signed = forgotten.read_receipt()
    signed["keys"][forgotten.session]["0-3"] = "0" * 64
    forgotten.write_receipt(signed)


def add_key(forgotten: ForgottenTurn) -> None:
    signed = forgotten.read_receipt()
    signed["keys"][forgotten.session]["4-4"] = "0" * 64
    forgotten.write_receipt(signed)


def drop_blob(forgotten: ForgottenTurn) -> None:
    """Take away a text that kept prompts have in them."""

    def alter(listed: Json) -> None:
        for digest in listed["blobs"][:]:
            listed["blobs"].remove(digest)

    forgotten.alter_manifest(alter)


def alter_word(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b'"actor":"', b'"actor":"x', 1)


def swap_lines(lines: list[bytes]) -> None:
    lines[3], lines[4] = lines[4], lines[3]


LIES: dict[str, tuple[Callable[[ForgottenTurn], object], str]] = {
    "an event that was reached is left out": (
        lambda made: made.alter_part(lambda part: part["events"].pop()),
        "it is under an erased key, and the receipt leaves it out",
    ),
    "an event that was not reached is named": (
        name_first_event,
        "event 1: the receipt names it as erased, and it is another or under no erased key",
    ),
    "an event is named by another id": (
        lambda made: made.alter_part(lambda part: part["events"][0].update(id="x")),
        "the receipt names it as erased, and it is another or under no erased key",
    ),
    "an event is named twice": (
        lambda made: made.alter_part(lambda part: part["events"].append(part["events"][0])),
        "the receipt names an event twice",
    ),
    "a call whose prompt had the words is left out": (
        lambda made: made.alter_part(lambda part: part["calls"].remove("3.1")),
        "3.1: the receipt and the record differ",
    ),
    "a call whose prompt had none of the words is named": (
        lambda made: made.alter_part(lambda part: part["calls"].append("1.1")),
        "1.1: the receipt and the record differ",
    ),
    "a turn whose reply may repeat the words is left out": (
        lambda made: made.alter_part(lambda part: part["repeating_turns"].pop()),
        "the receipt states other turns whose replies may repeat words",
    ),
    "a fork that was reached is left out": (
        lambda made: made.state_receipt(lambda receipt: receipt["sessions"].pop()),
        "and the receipt leaves it out",
    ),
    "a session that was not reached is named": (add_session, "its erasure is not part of this one"),
    "another reason is stated": (
        lambda made: made.state_receipt(lambda receipt: receipt.update(reason="x")),
        "the receipt states another reason",
    ),
    "another turn is stated": (
        lambda made: made.alter_part(lambda part: part["turns"][0].update(turn=3)),
        "the receipt states another turns",
    ),
    "another generation is stated": (
        lambda made: made.alter_part(lambda part: part.update(generation=7)),
        "the receipt states another generation",
    ),
    "another record of keys is stated": (
        lambda made: made.alter_part(lambda part: part.update(record_after=part["record_before"])),
        "the receipt states another record_after",
    ),
    "an event before the erasure is not the one": (
        lambda made: made.alter_part(lambda part: part["before"].update(sequence=1)),
        "event 1: it is not the one that the receipt notes",
    ),
    "an earlier event is stated as the last one": (
        state_earlier_place,
        "event 3: it is not the one before the erasure",
    ),
    "the list of keys is hidden": (hide_keys, "is gone, and no erasure says so"),
    "a session is named twice": (
        lambda made: made.state_receipt(
            lambda receipt: receipt["sessions"].append(receipt["sessions"][1])
        ),
        "its sessions are not those of its erasure",
    ),
    "a key of an erased leaf was kept": (keep_key, "turn 2 is left, which was erased"),
    "a key was lost without an erasure": (
        lambda made: made.alter_part(lambda part: part["keys"].pop(2)),
        "the key of what was submitted with turn 4 is gone, and no erasure says so",
    ),
    "a key that is left is another one": (
        lambda made: made.alter_part(
            lambda part: part["keys"][0].update(hash=part["before"]["hash"])
        ),
        "they are not those that the record notes after the erasure",
    ),
    "a key in the file is another one": (alter_key, "0-3 is another key in the receipt"),
    "a key in the file is not in the list": (add_key, "'4-4' is no key in the receipt"),
    "the bundle has a key of an erased event": (
        add_words,
        "the bundle has a key for it, so its words can be read",
    ),
    "the bundle lacks a key of an event that is not erased": (
        drop_key,
        "it is sealed, and there is no key for it and no erasure of it",
    ),
    "a prompt without the words cannot be had again": (drop_blob, "it is missing, or altered"),
    "an event is altered": (
        lambda made: made.alter_lines(alter_word),
        "does not continue its bytes",
    ),
    "an event is cut out": (
        lambda made: made.alter_lines(lambda lines: lines.pop(4)),
        "event 5: it is missing before event 6",
    ),
    "the last event is cut off": (
        lambda made: made.alter_lines(lambda lines: lines.pop()),
        "it is not the one that was exported as the last",
    ),
    "two events change places": (
        lambda made: made.alter_lines(swap_lines),
        "event 4: it is missing before event 5",
    ),
    "the receipt was altered after it was signed": (alter_signed, "the signature is not that of"),
    "somebody else signed": (sign_anew, "it is not signed by"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_lie_is_found_and_named(
    forgotten: ForgottenTurn, lie: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tell, named = LIES[lie]
    signer = forgotten.signer
    tell(forgotten)
    assert forgotten.check("--key", signer) == 5
    printed = capsys.readouterr().out
    assert named in printed
    assert any(named in line for line in printed.splitlines() if line.startswith("FAILED"))
    assert printed.endswith("\nNOT VERIFIED\n")


def cut_bundle(forgotten: ForgottenTurn) -> None:
    """Leave out the turn that came after the erasure, and restate the end."""
    forgotten.alter_lines(lambda lines: lines.pop())

    def alter(listed: Json) -> None:
        file = forgotten.folder / f"bundle/sessions/{forgotten.session}.ndjson"
        lines = file.read_bytes().splitlines()
        listed["sessions"][0].update(events=len(lines), head=compute_digest(lines[-1]))

    forgotten.alter_manifest(alter)


def drop_fork(forgotten: ForgottenTurn) -> None:
    (forgotten.folder / f"bundle/sessions/{forgotten.fork}.ndjson").unlink()
    forgotten.alter_manifest(
        lambda listed: listed.update(
            sessions=[each for each in listed["sessions"] if each["session"] != forgotten.fork]
        )
    )


def use_earlier_bundle(forgotten: ForgottenTurn) -> None:
    shutil.rmtree(forgotten.folder / "bundle")
    (forgotten.folder / "before").rename(forgotten.folder / "bundle")


def drop_keys(forgotten: ForgottenTurn) -> None:
    signed = forgotten.read_receipt()
    del signed["keys"]
    forgotten.write_receipt(signed)


GAPS: dict[str, tuple[Callable[[ForgottenTurn], object], str]] = {
    "the bundle is from before the erasure": (
        use_earlier_bundle,
        "before it was erased: whoever has this bundle reads the words",
    ),
    "the bundle ends before the receipt": (cut_bundle, "was signed: take a newer bundle"),
    "a fork is in no bundle": (drop_fork, "it is in no bundle here, and nothing of it is checked"),
    "the keys that are left are not in the file": (
        drop_keys,
        "what the keys open that are left; they are not here",
    ),
}


@pytest.mark.parametrize("gap", GAPS)
async def test_what_could_not_be_shown_is_named_and_is_not_called_forgotten(
    forgotten: ForgottenTurn, gap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, named = GAPS[gap]
    prepare(forgotten)
    assert forgotten.check("--key", forgotten.signer) == 6
    printed = capsys.readouterr().out
    assert any(named in line for line in printed.splitlines() if line.startswith("  --    "))
    assert printed.endswith("\nNOT ALL SHOWN\n")
    assert not any(line.startswith("FAILED") for line in printed.splitlines())


async def test_receipt_of_another_session_or_tenant_is_refused(
    forgotten: ForgottenTurn, capsys: pytest.CaptureFixture[str]
) -> None:
    forgotten.alter_manifest(lambda listed: listed.update(tenant="other"))
    assert forgotten.check() == 5
    assert "it is of tenant other" in capsys.readouterr().out
    drop_fork(forgotten)
    forgotten.alter_manifest(
        lambda listed: listed.update(tenant="default", sessions=listed["sessions"][1:])
    )
    (forgotten.folder / f"bundle/sessions/{forgotten.session}.ndjson").unlink()
    assert forgotten.check() == 5
    assert f"no bundle here has session {forgotten.session}" in capsys.readouterr().out


MALFORMED_RECEIPTS: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda text: text[: len(text) // 2],
    "empty": lambda _: b"",
    "no text": lambda _: b"\xff\xfe\x00",
    "a list": lambda _: b"[]",
    "another file": lambda _: b'{"sessions": []}',
    "nested too deep": lambda _: b'{"receipt":' + b"[" * 200_000,
    "a field twice": lambda text: text.replace(b'"receipt":', b'"receipt":{},"receipt":', 1),
    "a number without end": lambda _: b'{"receipt":' + b"9" * 9_999 + b"}",
    "nothing in it": lambda _: b'{"receipt": {}, "signatures": []}',
    "odd values": lambda _: b'{"receipt": {"format": "turnlog-receipt/1"}, "signatures": [7]}',
}


@pytest.mark.parametrize("form", MALFORMED_RECEIPTS)
async def test_malformed_receipt_is_refused_without_a_traceback(
    forgotten: ForgottenTurn, form: str
) -> None:
    file = forgotten.folder / "receipt.json"
    file.write_bytes(MALFORMED_RECEIPTS[form](file.read_bytes()))
    ran = run_stranger(forgotten.folder, "bundle", "receipt.json")
    assert (ran.returncode, ran.stderr) == (5, "")
    *_, reason, verdict = ran.stdout.splitlines()
    assert reason.startswith("FAILED")
    assert verdict == "NOT VERIFIED"


async def test_huge_receipt_is_not_read(forgotten: ForgottenTurn) -> None:
    with (forgotten.folder / "receipt.json").open("wb") as file:
        file.truncate(100 * MAX_RECEIPT)
    ran = run_stranger(forgotten.folder, "bundle", "receipt.json")
    assert ran.returncode == 5
    assert f"receipt.json: it is larger than {MAX_RECEIPT} bytes" in ran.stdout


async def test_receipt_is_signed_for_erasures_alone_and_replaces_no_file(
    made: ForgottenTurn, sealed_up: TurnlogUp
) -> None:
    url = str(sealed_up.service.http.base_url)
    key = ("--key", str(made.folder / "key.pem"), "--url", url)
    file = made.folder / "receipt.json"
    for words, code in (
        ((made.session, "1", str(made.folder / "new.json")), "unknown-erasure"),
        ((made.session, str(made.begun), str(file)), "file-exists"),
    ):
        exit_code, _, errors = await run_turnlog("receipt", *words, *key)
        assert exit_code != 0
        assert code in errors
    assert not (made.folder / "new.json").exists()
