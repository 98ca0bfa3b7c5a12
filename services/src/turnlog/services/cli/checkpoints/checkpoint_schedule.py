"""Checkpoints on a schedule: each continues the last one, or is not signed.

It runs on another machine than the log's, so that neither the signing key nor the checkpoints are
where somebody who writes to the log can write. What it knows is in its folder, so it goes on after
a restart where the last checkpoint was.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr
from rich.text import Text

from turnlog.events.errors import Conflict, Refused, TurnlogError, Unavailable
from turnlog.projections.audit.verify.signed_checkpoints import SignedCheckpoint
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.cli.checkpoints.checkpoint_files import (
    load_announced_key,
    load_checkpoint_file,
    print_checkpoint,
    sign_continued_checkpoint,
)
from turnlog.services.cli.checkpoints.checkpoint_folder import (
    CheckpointFolder,
    name_consistency,
    read_noted_time,
    read_with_consistency,
)
from turnlog.services.cli.checkpoints.checkpoint_upload import (
    CheckpointUpload,
    parse_upload_address,
)
from turnlog.services.cli.client.service_client import ServiceClient, create_running_client
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.client.verification_reads import fetch_checkpoint
from turnlog.services.cli.console import OutputFormat, create_error_console
from turnlog.services.cli.options import CHECKPOINT_TOKEN_VARIABLE, ServiceTarget
from turnlog.services.platform.clock import Clock, read_clock
from turnlog.services.platform.shutdown import STOP_SIGNALS

FIRST_RETRY_SECONDS: Final = 1.0
"""Seconds after which a step that failed is tried again; each further time it is twice as long."""

LAST_RETRY_SECONDS: Final = 60.0


_RETRIED_CODES: Final = {"busy", "too-many-requests", "no-service", "unknown-data-dir"}
"""Refusals that pass: the service is busy, or not there yet."""


@dataclass(slots=True, kw_only=True)
class CheckpointSchedule:
    """Takes a checkpoint at each interval, and puts it to an address if there is one."""

    open_service: Callable[[], AbstractAsyncContextManager[ServiceClient]]
    """Opens the service for one checkpoint; it may have another address each time."""
    folder: CheckpointFolder
    key: Ed25519PrivateKey
    every: float
    """Seconds between two checkpoints."""
    upload: CheckpointUpload | None
    """Where the files go; the folder then has those that are not there yet, and the newest."""
    announce: Callable[[SignedCheckpoint, Path], None]
    """Says that a checkpoint was signed."""
    report: Callable[[str], None]
    """Says what is tried again."""
    clock: Clock = read_clock
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    sent: set[Path] = field(default_factory=set[Path])
    """The files of checkpoints that the address has."""
    taken_at: datetime | None = None
    """When this process took the last one, by its own clock; that of the service may differ."""

    async def run(self) -> None:
        """Run without end; raises `Corrupt` where the log does not continue the last checkpoint."""
        retry = FIRST_RETRY_SECONDS
        while True:
            # One that cannot be sent does not keep the next one from being signed.
            failures = [await self._try(self._take_due), await self._try(self._send_files)]
            if not any(failures):
                retry = FIRST_RETRY_SECONDS
                await self.wait(self._compute_delay())
                continue
            for each in filter(None, failures):
                self.report(f"{each}; tried again in {retry:g} s")
            await self.wait(retry)
            retry = min(2 * retry, LAST_RETRY_SECONDS)

    async def _try(self, step: Callable[[], Awaitable[None]]) -> TurnlogError | None:
        """Run a step; return the failure that passes if it is waited for."""
        try:
            await step()
        except (Unavailable, Conflict) as error:
            return error
        except Refused as refused:
            if refused.code in _RETRIED_CODES:
                return refused
            raise
        return None

    def _compute_delay(self) -> float:
        """Return the seconds until the next checkpoint, at most an interval."""
        newest = self.folder.find_newest()
        if newest is None:
            return 0.0
        last = read_noted_time(newest) if self.taken_at is None else self.taken_at
        age = (self.clock() - last).total_seconds()
        return min(max(self.every - age, 0.0), self.every)

    async def _take_due(self) -> None:
        if self._compute_delay() > 0:
            return
        newest = self.folder.find_newest()
        async with self.open_service() as service:
            if newest is None:
                signed, nodes = sign_checkpoint(await fetch_checkpoint(service), self.key), None
            else:
                # One of another signer may be anybody's, and would hide what the log was before.
                public = b64encode(self.key.public_key().public_bytes_raw()).decode()
                older = load_checkpoint_file(newest, public)
                signed, nodes = await sign_continued_checkpoint(service, older, lambda: self.key)
        file = self.folder.store_checkpoint(signed, nodes)
        self.taken_at = self.clock()
        self.announce(signed, file)

    async def _send_files(self) -> None:
        if self.upload is None:
            return
        files = self.folder.list_checkpoints()
        for each in files:
            if each not in self.sent:
                for name, content in read_with_consistency(each):
                    await self.upload.put_file(name, content)
                self.sent.add(each)
        for each in files[:-1]:
            name_consistency(each).unlink(missing_ok=True)
            each.unlink()
            self.sent.discard(each)


@dataclass(frozen=True, slots=True)
class SchedulePlace:
    """Where checkpoints go, as the command line names it."""

    to: str
    """A folder, or an http(s) address."""
    state: Path | None
    """The folder beside an address."""
    token_file: Path | None


def create_schedule(
    *,
    target: ServiceTarget,
    key_file: Path,
    every: float,
    place: SchedulePlace,
    output: OutputFormat,
) -> CheckpointSchedule:
    """Create the schedule of `turnlog checkpoint --every`."""
    upload = None
    if place.state is not None:
        token = _read_token(place.token_file)
        prefix = parse_upload_address(place.to, has_token=token is not None)
        upload = CheckpointUpload(prefix, token)
    return CheckpointSchedule(
        open_service=lambda: create_running_client(require_service(target)),
        folder=CheckpointFolder(place.state or Path(place.to)),
        key=load_announced_key(key_file),
        every=every,
        upload=upload,
        announce=lambda signed, file: print_checkpoint(signed, file, output),
        report=lambda text: create_error_console().print(Text(text), soft_wrap=True),
    )


def _read_token(file: Path | None) -> SecretStr | None:
    """Return the token in a file, or that of the variable; None without either."""
    text = os.environ.get(CHECKPOINT_TOKEN_VARIABLE, "") if file is None else file.read_text()
    return SecretStr(text.strip()) if text.strip() else None


async def run_until_signal(schedule: CheckpointSchedule) -> None:
    """Run a schedule until the process is asked to end."""
    running, loop = asyncio.create_task(schedule.run()), asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, running.cancel)
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()
