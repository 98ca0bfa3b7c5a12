"""Two checkpoints of one log: whatever happened to it between them is found from their files."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.services.gateway.gateway_service import (
    MemoryBackend,
    RunningGateway,
    build_alert_service,
    start_service,
)
from tests.support.processes.service_connection import connect_service
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.verify.checkpoint_consistency import ContinuedCheckpoint
from turnlog.projections.audit.verify.hash_chain import format_root
from turnlog.projections.audit.verify.merkle_tree import ConsistencyPath, MerkleTree
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint, SignedCheckpoint
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.bundle.check_lines import encode_canonical
from turnlog.services.bundle.consistency_verifier import verify_consistency
from turnlog.services.bundle.merkle_paths import summarise_heads
from turnlog.services.cli.checkpoints.checkpoint_files import (
    CheckpointFiles,
    create_checkpoint_file,
    sign_continued_checkpoint,
)
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.client.verification_reads import continue_checkpoint
from turnlog.services.platform.clock import read_clock

KEY = Ed25519PrivateKey.generate()

SIGNER = b64encode(KEY.public_key().public_bytes_raw()).decode()

Json = dict[str, Any]


@dataclass(frozen=True)
class CheckpointPair:
    """Two signed checkpoints with the nodes between them, as their files have them."""

    older: Json
    newer: Json
    nodes: Json

    def copy(self) -> CheckpointPair:
        copied = json.loads(json.dumps([self.older, self.newer, self.nodes]))
        return CheckpointPair(*copied)

    def resign(self) -> CheckpointPair:
        """Sign both as they are now, and let the nodes name them: what a forger with the key does.

        Also what no reader would take is signed.
        """
        for name, signed in (("older", self.older), ("newer", self.newer)):
            stated = encode_canonical(summarise_heads(signed["checkpoint"]))
            signature = b64encode(KEY.sign(stated)).decode()
            signed["signatures"] = [{"algorithm": "ed25519", "key": SIGNER, "signature": signature}]
            self.nodes[name] = compute_digest(stated)
        return self

    def verify(self, folder: Path, *words: str) -> int:
        files = ((folder / f"{name}.json", value) for name, value in vars(self).items())
        return verify_consistency([*words, *(write_json(file, value) for file, value in files)])


def write_json(file: Path, value: Json) -> str:
    file.write_text(json.dumps(value))
    return str(file)


def read_json(file: Path) -> Json:
    value: Json = json.loads(file.read_bytes())
    return value


async def play(stand: RunningGateway, session: str, *texts: str) -> None:
    known = await stand.http.get(f"/v1/sessions/{session}")
    if known.status_code == 404:
        await stand.open_session("assistant", session=session)
    for text in texts:
        stand.model.scripts = [[f"You said {text}"]]
        answer = await stand.http.post(f"/v1/sessions/{session}/turns?wait=60", json={"text": text})
        assert answer.status_code == 200, answer.text


async def evaluate_alert(stand: RunningGateway, name: str) -> None:
    rule = {"name": name, "measure": "projector_lag", "above": -1}
    answer = await stand.http.put("/v1/alerts", json={"alerts": [rule]})
    assert answer.status_code == 200, answer.text
    await AlertEvaluator(
        log=stand.backend.log,
        store=stand.store,
        service=build_alert_service(stand.backend, "/turnlog/projector"),
        clock=read_clock,
    ).evaluate_alerts()


@dataclass(frozen=True, repr=False)
class WitnessedService:
    """A service whose log has grown between two checkpoints."""

    stand: RunningGateway
    folder: Path

    @property
    def service(self) -> ServiceClient:
        return connect_service(self.stand.http)

    @property
    def key_file(self) -> Path:
        return self.folder / "key.pem"

    def name_files(self, name: str, older: str | None) -> CheckpointFiles:
        return CheckpointFiles(
            checkpoint=self.folder / f"{name}.json",
            older=None if older is None else self.folder / f"{older}.json",
            consistency=None if older is None else self.folder / f"{name}-nodes.json",
            verifier=None if older is None else self.folder / f"verify_{name}.py",
        )

    async def take_checkpoint(self, name: str, older: str | None = None) -> None:
        """Write a checkpoint as `turnlog checkpoint` does."""
        files = self.name_files(name, older)
        await create_checkpoint_file(self.service, files, self.key_file, "table")

    def read_pair(self, older: str, newer: str) -> CheckpointPair:
        names = (older, newer, f"{newer}-nodes")
        return CheckpointPair(*(read_json(self.folder / f"{name}.json") for name in names))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WitnessedService]:
    folder = tmp_path_factory.mktemp("witnessed")
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(KEY.private_bytes(*form))
    async with start_service(MemoryBackend(), "golden", folder) as stand:
        witnessed = WitnessedService(stand, folder)
        await play(stand, "case", "My name is Ada.", "What is my name?")
        await play(stand, "other", "Hello!")
        await play(stand, "third", "Hm")
        await evaluate_alert(stand, "lag")
        await witnessed.take_checkpoint("monday")
        await play(stand, "case", "Are you sure?")
        await play(stand, "other", "And now?", "And then?")
        await play(stand, "new", "Hello!")
        await evaluate_alert(stand, "delay")
        await witnessed.take_checkpoint("tuesday", "monday")
        yield witnessed


@pytest.fixture
def pair(house: WitnessedService) -> CheckpointPair:
    return house.read_pair("monday", "tuesday")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_stranger_checks_two_checkpoints_with_one_file_in_an_empty_directory(
    house: WitnessedService, pair: CheckpointPair, tmp_path: Path
) -> None:
    for name in ("monday.json", "tuesday.json", "tuesday-nodes.json", "verify_tuesday.py"):
        (tmp_path / name).write_bytes((house.folder / name).read_bytes())
    words = ("monday.json", "tuesday.json", "tuesday-nodes.json", "--key", SIGNER)
    command = [sys.executable, "-I", "-S", "verify_tuesday.py", *words]
    ran = subprocess.run(  # noqa: ASYNC221 - nothing else runs in this loop
        command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *lines, last = ran.stdout.splitlines()
    assert (last, {line[:6] for line in lines}) == ("consistent", {"  ok  "})
    assert "  ok    sessions: 3 continued, 2 of them grew, 1 are new" in lines
    assert set(pair.nodes["nodes"]) == {"sessions", "library"}
    assert set(pair.nodes["nodes"]["sessions"]) == {"case", "other"}, "the third did not grow"
    assert pair.older["checkpoint"]["alerts"].keys() == {"lag"}


@pytest.mark.asyncio(loop_scope="module")
async def test_checkpoints_continue_one_another_and_one_of_nothing_new_has_no_nodes(
    house: WitnessedService, tmp_path: Path
) -> None:
    await house.take_checkpoint("wednesday", "tuesday")
    same = house.read_pair("tuesday", "wednesday")
    assert (same.nodes["nodes"], same.verify(tmp_path)) == ({}, 0)
    await house.take_checkpoint("thursday", "monday")
    assert house.read_pair("monday", "thursday").verify(tmp_path, f"--key={SIGNER}") == 0


def grow_otherwise(pair: CheckpointPair) -> None:
    """Rewrite the first event of a session, with roots and nodes that fit the rewritten ones."""
    before, size = (
        each["checkpoint"]["sessions"]["case"]["sequence"] for each in (pair.older, pair.newer)
    )
    tree = MerkleTree()
    for number in range(before):
        tree.add_entry(bytes([number]) * 32)
    path = ConsistencyPath(tuple(tree.subtrees), before)
    for number in range(before, size):
        tree.add_entry(bytes([number]) * 32)
        path.add_entry(bytes([number]) * 32)
    pair.newer["checkpoint"]["sessions"]["case"]["root"] = format_root(tree.compute_root())
    pair.nodes["nodes"]["sessions"]["case"] = [node.hex() for node in path.list_nodes()]


def get_sessions(signed: Json) -> Json:
    sessions: Json = signed["checkpoint"]["sessions"]
    return sessions


def leave_out(pair: CheckpointPair) -> None:
    del get_sessions(pair.newer)["case"]
    del pair.nodes["nodes"]["sessions"]["case"]


def leave_out_unchanged(pair: CheckpointPair) -> None:
    del get_sessions(pair.newer)["third"]


def leave_out_alerts(pair: CheckpointPair) -> None:
    del pair.newer["checkpoint"]["alerts"]


def cut_session(pair: CheckpointPair) -> None:
    get_sessions(pair.newer)["case"]["sequence"] = 5


def end_earlier(pair: CheckpointPair) -> None:
    pair.newer["checkpoint"]["end"] = 3


def swap_heads(pair: CheckpointPair) -> None:
    heads = get_sessions(pair.newer)
    heads["case"], heads["other"] = heads["other"], heads["case"]


def swap_root(pair: CheckpointPair) -> None:
    heads = get_sessions(pair.newer)
    heads["third"]["root"] = heads["case"]["root"]


def swap_hash(pair: CheckpointPair) -> None:
    heads = get_sessions(pair.newer)
    heads["third"]["hash"] = heads["case"]["hash"]


def rename_tenant(pair: CheckpointPair) -> None:
    pair.newer["checkpoint"]["tenant"] = "other"


def get_nodes(pair: CheckpointPair) -> list[str]:
    nodes: list[str] = pair.nodes["nodes"]["sessions"]["case"]
    return nodes


def alter_first_node(pair: CheckpointPair) -> None:
    get_nodes(pair)[0] = "00" * 32


def alter_last_node(pair: CheckpointPair) -> None:
    get_nodes(pair)[-1] = "00" * 32


def add_node(pair: CheckpointPair) -> None:
    get_nodes(pair).append("00" * 32)


def take_node(pair: CheckpointPair) -> None:
    get_nodes(pair).pop()


def write_capitals(pair: CheckpointPair) -> None:
    get_nodes(pair)[0] = get_nodes(pair)[0].upper()


def take_nodes(pair: CheckpointPair) -> None:
    del pair.nodes["nodes"]["sessions"]["case"]


def add_unneeded_nodes(pair: CheckpointPair) -> None:
    pair.nodes["nodes"]["sessions"]["third"] = []


def add_unknown_nodes(pair: CheckpointPair) -> None:
    pair.nodes["nodes"]["others"] = {"case": []}


def state_true(pair: CheckpointPair) -> None:
    get_sessions(pair.older)["case"]["sequence"] = True


FORGERIES: dict[Callable[[CheckpointPair], None], str] = {
    leave_out: "FAILED  sessions: case: it is missing in the newer checkpoint",
    leave_out_unchanged: "FAILED  sessions: third: it is missing in the newer checkpoint",
    leave_out_alerts: "FAILED  alerts: lag: it is missing in the newer checkpoint",
    cut_session: "FAILED  sessions: case: it has 5 events and had ",
    end_earlier: "FAILED  both: the newer log ends at 3, the older one at ",
    grow_otherwise: "events are not those that were noted",
    swap_heads: "FAILED  sessions: case: ",
    swap_root: "FAILED  sessions: third: its 6 events are not those that were noted",
    swap_hash: "FAILED  sessions: third: its 6 events are not those that were noted",
    rename_tenant: "FAILED  both: they are of two tenants",
    alter_first_node: "case: its nodes do not lead to the root of the newer checkpoint",
    alter_last_node: "case: its nodes do not lead to the root of the newer checkpoint",
    add_node: "case: it has too many nodes",
    take_node: "case: it has too few nodes",
    write_capitals: "case: a node of the path is not 64 lower-case hexadecimal digits",
    take_nodes: "case: it grew and its nodes are missing",
    add_unneeded_nodes: "third: it has nodes and did not grow",
    add_unknown_nodes: "FAILED  others: case: it has nodes and is not in the older checkpoint",
    state_true: "case: its sequence is not a number from 1 to ",
}


@pytest.mark.promise("P17")
@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_whoever_signs_it_a_log_that_does_not_continue_is_found_and_named(
    pair: CheckpointPair,
    tmp_path: Path,
    forge: Callable[[CheckpointPair], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert pair.copy().resign().verify(tmp_path) == 0
    capsys.readouterr()
    forged = pair.copy()
    forge(forged)
    assert forged.resign().verify(tmp_path) == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "NOT CONSISTENT"
    assert [line[:6] for line in lines].count("FAILED") == 1, lines
    assert FORGERIES[forge] in "\n".join(lines)


def iterate_values(value: Any, *path: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401
    """Yield each text and number in a JSON value, with its place."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    found: Any = cast("Any", value)
    for name in found if isinstance(value, dict) else range(len(found)):
        yield from iterate_values(found[name], *path, name)


@pytest.mark.slow("checks two signatures in pure Python for each value")
@pytest.mark.promise("P17")
def test_every_altered_value_is_found(
    pair: CheckpointPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = vars(pair)
    for path, value in iterate_values(files):
        altered = pair.copy()
        place = vars(altered)
        for name in path[:-1]:
            place = place[name]
        other = "b" if isinstance(value, str) and value.endswith("a") else "a"
        place[path[-1]] = value + 1 if isinstance(value, int) else value[:-1] + other
        assert altered.verify(tmp_path) == 5, path
        assert "\nconsistent" not in capsys.readouterr().out, path


def test_signatures_of_others_and_of_each_other_are_found(
    pair: CheckpointPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pair.verify(tmp_path, f"--key={SIGNER}") == 0
    assert pair.verify(tmp_path, "--key=somebody") == 5
    assert "it is not signed by somebody" in capsys.readouterr().out
    swapped = pair.copy()
    swapped.newer["signatures"] = pair.older["signatures"]
    assert swapped.verify(tmp_path) == 5
    assert "FAILED  newer checkpoint: the signature is not that of" in capsys.readouterr().out
    unsigned = pair.copy()
    unsigned.older["signatures"] = []
    assert unsigned.verify(tmp_path) == 5
    assert replace(pair, older=pair.newer, newer=pair.older).verify(tmp_path) == 5
    assert "case: it has 10 events and had 14" in capsys.readouterr().out


def test_field_that_occurs_twice_is_refused(pair: CheckpointPair, tmp_path: Path) -> None:
    assert pair.verify(tmp_path) == 0
    file = tmp_path / "newer.json"
    file.write_text(file.read_text().replace('"third": {', '"third": {}, "third": {', 1))
    words = [str(tmp_path / f"{name}.json") for name in ("older", "newer", "nodes")]
    assert verify_consistency(words) == 5


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_nothing_is_signed_where_the_log_does_not_continue(
    house: WitnessedService, tmp_path: Path
) -> None:
    texts = {
        "rewritten": ("My name is Eve.", "What is my name?", "Are you sure?"),
        "cut": ("My name is Ada.",),
    }
    for name, reason in (
        ("rewritten", "sessions case, event 10: its bytes differ from the noted digest"),
        ("cut", "sessions case, event 10: it was noted and is missing"),
    ):
        (tmp_path / name).mkdir()
        async with start_service(MemoryBackend(), "golden", tmp_path / name) as stand:
            await play(stand, "case", *texts[name])
            other = replace(house, stand=stand)
            with pytest.raises(Corrupt) as refused:
                await other.take_checkpoint(name, "monday")
            assert reason in str(refused.value)
    for name in ("rewritten", "cut"):
        files = house.name_files(name, "monday")
        assert files.consistency is not None
        assert not files.checkpoint.exists()
        assert not files.consistency.exists()


@dataclass(frozen=True)
class LyingService:
    """A service that answers with what it was given."""

    answer: ContinuedCheckpoint

    async def send(self, _operation: object) -> ContinuedCheckpoint:
        return self.answer


@pytest.mark.asyncio(loop_scope="module")
async def test_service_is_not_believed_that_says_its_log_continues(
    house: WitnessedService, pair: CheckpointPair
) -> None:
    older = SignedCheckpoint.model_validate(pair.older)
    found = await continue_checkpoint(house.service, older.checkpoint)
    heads = {**found.checkpoint.sessions, "case": found.checkpoint.sessions["other"]}
    lie = found.checkpoint.model_copy(update={"sessions": heads})
    consistency = found.consistency.model_copy(update={"newer": compute_digest(lie.signed_bytes)})
    lying = LyingService(ContinuedCheckpoint(checkpoint=lie, consistency=consistency))
    with pytest.raises(Corrupt, match="sessions: case: its nodes do not lead to the root"):
        await sign_continued_checkpoint(cast("ServiceClient", lying), older, lambda: KEY)
    honest = LyingService(found)
    signed, _ = await sign_continued_checkpoint(cast("ServiceClient", honest), older, lambda: KEY)
    assert signed.checkpoint == found.checkpoint


@pytest.mark.asyncio(loop_scope="module")
async def test_older_checkpoint_of_another_tenant_or_without_roots_is_refused(
    house: WitnessedService, pair: CheckpointPair
) -> None:
    send = house.stand.http.post
    other = {**pair.older["checkpoint"], "tenant": "other"}
    answer = await send("/v1/checkpoint", json=other)
    assert (answer.status_code, answer.json()["field"]) == (422, "tenant")
    heads = {
        name: {"sequence": head["sequence"], "hash": head["hash"]}
        for name, head in get_sessions(pair.older).items()
    }
    named = {name: pair.older["checkpoint"][name] for name in ("at", "tenant", "stream", "created")}
    first = {**named, "end": 9, "sessions": heads, "library": {}}
    answer = await send("/v1/checkpoint", json=first)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-covered")
    old = sign_checkpoint(AuditCheckpoint.model_validate(first), KEY)
    with pytest.raises(Refused, match="has no roots of trees"):
        await sign_continued_checkpoint(house.service, old, lambda: KEY)
