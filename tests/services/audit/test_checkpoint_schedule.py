"""Checkpoints on a schedule: each continues the last one, over restarts and outages."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from tests.services.audit.test_checkpoint_consistency import play
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.support.processes.forked_program import get_forked_program
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.audit.verify.checkpoint_consistency import CheckpointConsistency
from turnlog.projections.audit.verify.signed_checkpoints import SignedCheckpoint
from turnlog.services.bundle.consistency_verifier import verify_consistency
from turnlog.services.cli.checkpoints.checkpoint_folder import (
    CheckpointFolder,
    find_checkpoint_file,
    name_consistency,
    read_noted_time,
)
from turnlog.services.cli.checkpoints.checkpoint_schedule import CheckpointSchedule
from turnlog.services.cli.checkpoints.checkpoint_upload import (
    CheckpointUpload,
    parse_upload_address,
)
from turnlog.services.cli.client.service_client import ServiceClient, create_client
from turnlog.services.cli.main import main
from turnlog.services.cli.options import parse_interval
from turnlog.services.platform.clock import read_clock

KEY = Ed25519PrivateKey.generate()

HOUR = 3600.0


@dataclass
class SteppedTime:
    """A clock that stands still between waits; what happens during each wait is a step."""

    steps: list[Callable[[], Awaitable[None]]]
    waits: list[float] = field(default_factory=list[float])
    offset: timedelta = timedelta()

    def read_clock(self) -> datetime:
        return read_clock() + self.offset

    async def wait(self, seconds: float) -> None:
        """Let a step happen; after the last one the process is ended."""
        self.waits.append(seconds)
        if not self.steps:
            raise asyncio.CancelledError
        self.offset += timedelta(seconds=seconds)
        await self.steps.pop(0)()


@dataclass
class Witness:
    """What runs a schedule, and what it printed."""

    stand: RunningGateway
    folder: Path
    url: str = ""
    upload: CheckpointUpload | None = None
    signed: list[Path] = field(default_factory=list[Path])
    reports: list[str] = field(default_factory=list[str])

    def open_service(self) -> AbstractAsyncContextManager[ServiceClient]:
        return create_client(self.url or self.stand.address)

    def announce(self, _signed: SignedCheckpoint, file: Path) -> None:
        self.signed.append(file)

    async def run(
        self, *steps: Callable[[], Awaitable[None]], offset: timedelta = timedelta()
    ) -> list[float]:
        """Run until the steps have happened, and return how long it waited before each.

        The clock of the process may differ from that of the service.
        """
        time = SteppedTime(list(steps), offset=offset)
        schedule = CheckpointSchedule(
            open_service=self.open_service,
            folder=CheckpointFolder(self.folder),
            key=KEY,
            every=HOUR,
            upload=self.upload,
            announce=self.announce,
            report=self.reports.append,
            clock=time.read_clock,
            wait=time.wait,
        )
        with suppress(asyncio.CancelledError):
            await schedule.run()
        return [round(seconds) for seconds in time.waits]

    def list_names(self) -> list[str]:
        return sorted(each.name for each in self.folder.iterdir())

    async def change_log(self) -> None:
        await play(self.stand, "case", "And now?")

    async def do_nothing(self) -> None:
        pass


def verify_each(files: list[Path]) -> list[int]:
    """Check each checkpoint against the one before it."""
    return [
        verify_consistency([str(each) for each in (older, newer, name_consistency(newer))])
        for older, newer in pairwise(files)
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("scheduled")
    async with start_service(MemoryBackend(), "golden", folder) as running:
        await play(running, "case", "Hello!")
        yield running


@pytest.fixture
def witness(stand: RunningGateway, tmp_path: Path) -> Witness:
    return Witness(stand, tmp_path / "kept")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_each_checkpoint_of_a_schedule_continues_the_last_one(witness: Witness) -> None:
    waits = await witness.run(witness.change_log, witness.do_nothing)
    assert waits == [HOUR] * 3
    assert (len(witness.signed), witness.reports) == (3, [])
    assert verify_each(witness.signed) == [0, 0]
    assert witness.signed == CheckpointFolder(witness.folder).list_checkpoints()
    names = [each.name for each in witness.signed]
    nodes = [name_consistency(each).name for each in witness.signed[1:]]
    assert witness.list_names() == sorted([*names, *nodes]), "no other file is left"
    assert find_checkpoint_file(witness.folder) == witness.signed[-1]


@pytest.mark.asyncio(loop_scope="module")
async def test_schedule_goes_on_after_a_restart_where_the_last_checkpoint_was(
    witness: Witness,
) -> None:
    await witness.run()
    (witness.folder / ".checkpoint-20990101T000000.000Z.json.0a1b2c3d").write_text('{"half":')
    assert CheckpointFolder(witness.folder).list_checkpoints() == witness.signed
    assert await witness.run(witness.change_log) == [HOUR, HOUR], "it was not due at once"
    assert len(witness.signed) == 2
    older = witness.signed[0]
    aged = older.with_name("checkpoint-20260101T000000.000Z.json")
    older.rename(aged)
    witness.signed[1].unlink()
    name_consistency(witness.signed[1]).unlink()
    assert await witness.run() == [HOUR], "one that is overdue is taken at once"
    assert verify_each([aged, witness.signed[-1]]) == [0]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("hours", [-2, 2])
async def test_clock_that_differs_from_that_of_the_service_changes_no_interval(
    witness: Witness, hours: int
) -> None:
    offset = timedelta(hours=hours)
    assert await witness.run(witness.change_log, offset=offset) == [HOUR, HOUR]
    assert len(witness.signed) == 2
    assert await witness.run(offset=offset) == [HOUR], "it starts again"


@pytest.mark.asyncio(loop_scope="module")
async def test_service_that_is_away_is_asked_again_and_that_is_said(witness: Witness) -> None:
    async def come_back() -> None:
        witness.url = ""

    witness.url = "http://127.0.0.1:1"
    waits = await witness.run(witness.do_nothing, witness.do_nothing, come_back)
    assert waits == [1, 2, 4, HOUR]
    assert len(witness.signed) == 1
    assert len(witness.reports) == 3
    for report, seconds in zip(witness.reports, (1, 2, 4), strict=True):
        assert "http://127.0.0.1:1 does not answer" in report
        assert report.endswith(f"; tried again in {seconds} s")


@pytest.mark.asyncio(loop_scope="module")
async def test_busy_service_is_asked_again(witness: Witness) -> None:
    slots = witness.stand.dependencies.use_cases.verification.log_scan_slots.semaphore

    async def leave() -> None:
        slots.release()
        slots.release()

    async with asyncio.timeout(60):
        await slots.acquire()
        await slots.acquire()
    assert await witness.run(leave) == [1, HOUR]
    assert (len(witness.signed), "busy" in witness.reports[0]) == (1, True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("P17")
async def test_schedule_ends_where_the_log_does_not_continue_the_last_checkpoint(
    witness: Witness, tmp_path: Path
) -> None:
    await witness.run()
    before = witness.list_names()
    async with start_service(MemoryBackend(), "golden", tmp_path) as other:
        await play(other, "case", "I never said hello.")

        async def restore_another_log() -> None:
            witness.url = other.address

        with pytest.raises(Corrupt, match=r"case, event \d+: it"):
            await witness.run(restore_another_log)
    assert witness.list_names() == before, "nothing is signed"


@pytest.mark.asyncio(loop_scope="module")
async def test_last_checkpoint_that_another_key_signed_or_that_was_altered_is_not_continued(
    witness: Witness,
) -> None:
    await witness.run()
    (file,) = witness.signed
    signed = json.loads(file.read_bytes())
    file.rename(aged := file.with_name("checkpoint-20260101T000000.000Z.json"))
    aged.write_text(json.dumps(signed | {"checkpoint": signed["checkpoint"] | {"end": 1}}))
    with pytest.raises(Corrupt, match="is not one of this checkpoint"):
        await witness.run()
    aged.write_text(json.dumps(signed))
    other = CheckpointSchedule(
        open_service=witness.open_service,
        folder=CheckpointFolder(witness.folder),
        key=Ed25519PrivateKey.generate(),
        every=HOUR,
        upload=None,
        announce=witness.announce,
        report=witness.reports.append,
        wait=SteppedTime([]).wait,
    )
    with pytest.raises(Refused, match="is signed by"):
        await other.run()
    assert witness.list_names() == [aged.name]


@pytest.mark.asyncio(loop_scope="module")
async def test_checkpoint_never_replaces_another_nor_is_put_before_one(witness: Witness) -> None:
    await witness.run()
    folder, (file,) = CheckpointFolder(witness.folder), witness.signed
    signed, content = SignedCheckpoint.model_validate_json(file.read_bytes()), file.read_bytes()
    with pytest.raises(Unavailable, match="is there already"):
        folder.store_checkpoint(signed, None)
    assert read_noted_time(file) == datetime.fromisoformat(signed.checkpoint.at).replace(
        microsecond=read_noted_time(file).microsecond
    )
    nodes = name_consistency(file)
    nodes.write_text("somebody else's")
    file.unlink()
    with pytest.raises(Refused, match="is there already"):
        folder.store_checkpoint(signed, build_empty_consistency(signed))
    assert (nodes.read_text(), witness.list_names()) == ("somebody else's", [nodes.name])
    nodes.unlink()
    assert folder.store_checkpoint(signed, None).read_bytes() == content


def build_empty_consistency(signed: SignedCheckpoint) -> CheckpointConsistency:
    digest = compute_digest(signed.checkpoint.signed_bytes)
    return CheckpointConsistency(older=digest, newer=digest, nodes={})


@dataclass
class FileReceiver:
    """A server that takes files as object stores do, and what it got."""

    token: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    requests: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    is_away: bool = False

    def take_file(self, path: str, headers: dict[str, str], content: bytes) -> int:
        if self.is_away:
            status = 503
        elif headers.get("authorization") != f"Bearer {self.token}":
            status = 403
        elif headers.get("if-none-match") == "*" and path in self.files:
            status = 412
        else:
            self.files[path] = content
            status = 200
        self.requests.append((path, status))
        return status

    def list_taken(self) -> list[str]:
        return [path.rpartition("/")[2] for path, status in self.requests if status == 200]


@pytest.fixture
def receiver() -> Iterator[tuple[FileReceiver, str]]:
    """A receiver, and its address."""
    taken = FileReceiver("secret")

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(taken.take_file(self.path, headers, content))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield taken, f"http://127.0.0.1:{server.server_port}/bucket/turnlog"
        server.shutdown()
        thread.join()


@pytest.mark.asyncio(loop_scope="module")
async def test_checkpoints_are_put_to_an_address_that_is_away_at_first(
    witness: Witness, receiver: tuple[FileReceiver, str]
) -> None:
    taken, address = receiver
    witness.upload = CheckpointUpload(address, SecretStr("secret"))
    taken.is_away = True

    async def come_back() -> None:
        taken.is_away = False

    async def wait_an_hour() -> None:
        await witness.change_log()

    await witness.run(*[witness.do_nothing] * 70, wait_an_hour, come_back)
    assert len(witness.signed) == 2, "one that is not sent keeps no other from being signed"
    first, second = (each.name for each in witness.signed)
    assert taken.list_taken() == [first, name_consistency(witness.signed[1]).name, second]
    assert "answered 503; tried again in 1 s" in witness.reports[0]
    assert witness.list_names() == sorted([second, name_consistency(witness.signed[1]).name])
    assert taken.files[f"/bucket/turnlog/{second}"] == witness.signed[1].read_bytes()


@pytest.mark.asyncio(loop_scope="module")
async def test_restart_sends_the_newest_again_and_replaces_nothing_there(
    witness: Witness, receiver: tuple[FileReceiver, str]
) -> None:
    taken, address = receiver
    witness.upload = CheckpointUpload(address, SecretStr("secret"))
    await witness.run()
    (path,) = taken.files
    taken.files[path] = b"as it was"
    assert await witness.run(witness.change_log) == [HOUR, HOUR]
    assert taken.requests[:2] == [(path, 200), (path, 412)]
    assert len(taken.requests) == 4, "a process sends each file once"
    assert (taken.files[path], len(taken.files)) == (b"as it was", 3)
    witness.upload = CheckpointUpload(address, SecretStr("another"))
    await witness.run(witness.do_nothing)
    assert "answered 403" in witness.reports[-1]


@pytest.mark.parametrize(
    ("address", "has_token", "reason"),
    [
        ("ftp://host/prefix", False, "is no http"),
        ("https:///prefix", False, "is no http"),
        ("https://host/prefix?signature=1", False, "more than host and path"),
        ("https://user:pass@host/prefix", False, "more than host and path"),
        ("http://host/prefix", True, "a token goes over https"),
    ],
)
def test_address_that_takes_no_files_is_refused(
    address: str, *, has_token: bool, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        parse_upload_address(address, has_token=has_token)
    assert parse_upload_address("http://host/prefix/", has_token=False) == "http://host/prefix"
    assert parse_upload_address("https://host", has_token=True) == "https://host"


def write_key(file: Path) -> None:
    file.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


async def start_process(witness: Witness, url: str, key: Path) -> asyncio.subprocess.Process:
    write_key(key)
    return await asyncio.create_subprocess_exec(
        *(get_forked_program(), "checkpoint", "--every", "1h", "--to", witness.folder),
        *("--url", url, "--key", key),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.slow("commands run as processes")
@pytest.mark.promise("P20")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_process_signs_until_it_is_ended(
    witness: Witness, tmp_path: Path, number: signal.Signals
) -> None:
    running = await start_process(witness, witness.stand.address, tmp_path / "key.pem")
    assert running.stdout is not None
    async with asyncio.timeout(60):
        assert b"signed" in await running.stdout.readline()
        running.send_signal(number)
        _, error = await running.communicate()
    assert (running.returncode, error) == (0, b"")
    assert len(CheckpointFolder(witness.folder).list_checkpoints()) == 1


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.slow("commands run as processes")
async def test_process_exits_with_five_for_another_log(witness: Witness, tmp_path: Path) -> None:
    await witness.run()
    (file,) = witness.signed
    file.rename(file.with_name("checkpoint-20260101T000000.000Z.json"))
    async with start_service(MemoryBackend(), "golden", tmp_path) as other:
        await play(other, "case", "I never said hello.")
        async with asyncio.timeout(60):
            ended = await start_process(witness, other.address, tmp_path / "key.pem")
            _, error = await ended.communicate()
    assert ended.returncode == 5
    assert b"case, event" in error


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name a file, or --every and --to"),
        (("--every", "1h"), "it goes with --to"),
        (("--every", "0h", "--to", "kept"), "is no interval"),
        (("--every", "hourly", "--to", "kept"), "is no interval"),
        (("x.json", "--to", "kept"), "it goes with --every"),
        (("x.json", "--every", "1h", "--to", "kept"), "files are named by time"),
        (("--every", "1h", "--to", "https://host"), "an address needs --state"),
        (("--every", "1h", "--to", "kept", "--state", "kept"), "a folder has none"),
        (("--every", "1h", "--to", "kept", "--token-file", __file__), "a folder needs no token"),
    ],
)
def test_options_that_make_no_schedule_are_refused(
    words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["checkpoint", *words])
    assert (ended.value.code, reason in capsys.readouterr().err) == (2, True)
    assert [parse_interval(text) for text in ("90s", "30m", "1h", "2d")] == [90, 1800, 3600, 172800]
