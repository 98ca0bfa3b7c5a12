"""Withheld texts for the audit, read from the log and the blobs and never over HTTP.

The reader must have access to the data directory, or a NATS user that may read every session. The
gateway has no route to a withheld text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue
from rich.console import Group
from rich.text import Text

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.log.ports import Blobs, Log
from turnlog.events.nats.blobs import JetStreamBlobs
from turnlog.events.nats.connection import connected
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.redaction import ReplyRedacted
from turnlog.projections.audit.origins import Cause, cause
from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.options import Stored
from turnlog.services.cli.place import READY_FILE, Service, find
from turnlog.services.cli.screens.history import WIDTH
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.origins import caused
from turnlog.services.cli.screens.palette import BAD, QUIET
from turnlog.services.cli.screens.spelling import harmless, short
from turnlog.services.cli.show import Form
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer


@dataclass(frozen=True, slots=True)
class Audited:
    """A withheld text, and why it was withheld."""

    by: Cause
    rule: str
    reason: str
    digest: Digest
    text: str


async def show_withheld(
    stored: Stored, nats: str | None, session: str, turn: int, form: Form
) -> None:
    """Print the text that a rule withheld from a turn's reply."""
    async with _nats(stored, nats) as url, connected(url, name="turnlog-audit") as connection:
        log, blobs = JetStreamLog(connection), JetStreamBlobs(connection)
        found = await _audited(log, blobs, stored.tenant, session, turn)
    if form == "json":
        told: dict[str, JsonValue] = {
            "session": session,
            "turn": turn,
            "sequence": found.by.sequence,
            "rule": found.rule,
            "reason": found.reason,
            "digest": found.digest,
            "text": found.text,
        }
        print_json(told)
    else:
        answers().print(_screen(found))


async def _audited(log: Log, blobs: Blobs, tenant: str, session: str, turn: int) -> Audited:
    last = await log.last(tenant, session)
    if last is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    recorded, redacted = _redaction(await log.between(tenant, session, None, last), turn)
    if redacted.withheld is None:
        detail = f"the reply of turn {turn} was recorded before it was withheld"
        fix = f"its text stands in the turn's own event: `turnlog tail {session} --no-follow`"
        raise Refused("no-withheld-text", detail, field="turn", fix=fix)
    text = (await blobs.get(tenant, redacted.withheld)).decode()
    return Audited(cause(recorded), redacted.rule, redacted.reason, redacted.withheld, text)


def _redaction(events: Sequence[Recorded], turn: int) -> tuple[Recorded, ReplyRedacted]:
    for recorded in events:
        match recorded.event:
            case ReplyRedacted() as redacted if redacted.turn == turn:
                return recorded, redacted
            case _:
                pass
    raise Refused("no-withheld-text", f"nothing was withheld from turn {turn}", field="turn")


def _screen(found: Audited) -> Group:
    rule = Text(f"by {found.rule}", BAD).append(f": {harmless(found.reason)}  ", "default")
    digest = Text(f"blob {short(found.digest)}, read from the log's own store", QUIET)
    return Group(
        beside("withheld", found.text, BAD, WIDTH),
        Text(),
        rule.append_text(caused(found.by)),
        digest,
    )


@asynccontextmanager
async def _nats(stored: Stored, nats: str | None) -> AsyncGenerator[str]:
    """Yield the NATS address that is named, a running service's, or a new server's."""
    if nats is not None:
        yield nats
    elif isinstance(find(None, stored.data_dir), Service):
        yield _running(stored.data_dir)
    else:
        async with await NatsServer.start(NatsConfig(stored.data_dir)) as server:
            yield server.url


def _running(data_dir: Path) -> str:
    return str(json.loads((data_dir / READY_FILE).read_bytes())["nats"])
