"""Withheld texts for the audit, read from the log and the blobs and never over HTTP.

The reader must have access to the data directory, or a NATS user that may read every session. The
gateway has no route to a withheld text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from rich.console import Group
from rich.text import Text

from turnlog.events.content import Digest, decode_withheld_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.jetstream.blob_store import JetStreamBlobStore
from turnlog.events.jetstream.jetstream_client import JetStreamLog, add_archive, add_keys
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.services.cli.actions.log_connection import open_log_connection
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import LogTarget
from turnlog.services.cli.views.provenance_view import render_cause
from turnlog.services.cli.views.session_view import LABEL_WIDTH
from turnlog.services.cli.views.text_format import escape_controls, format_digest
from turnlog.services.cli.views.theme import BAD, MUTED, render_labelled_text
from turnlog.services.platform.process_settings import AllInOneSettings, find_directory_archive
from turnlog.services.seals.keyring_files import apply_directory_keyring, load_keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldText:
    """A withheld text, and why it was withheld."""

    cause: EventRef
    rule: str
    reason: str
    digest: Digest
    text: str


async def print_withheld_text(
    target: LogTarget, nats: str | None, session: str, turn: int, output: OutputFormat
) -> None:
    """Print the text that a rule withheld from a turn's reply."""
    settings = read_settings(
        AllInOneSettings, os.environ, {"data_dir": target.data_dir, "sealing": "off"}
    )
    settings = apply_directory_keyring(settings, creating=False)
    async with (
        open_log_connection(target, nats, "turnlog-audit") as connection,
        add_archive(connection, find_directory_archive(settings.data_dir)) as reading,
    ):
        opening = add_keys(reading, load_keyring(settings))
        log, blobs = JetStreamLog(connection=opening), JetStreamBlobStore(opening)
        found = await _load_withheld_text(
            log=log, blobs=blobs, tenant=target.tenant, session=session, turn=turn
        )
    if output == "json":
        fields: dict[str, JsonValue] = {
            "session": session,
            "turn": turn,
            "sequence": found.cause.sequence,
            "rule": found.rule,
            "reason": found.reason,
            "digest": found.digest,
            "text": found.text,
        }
        print_json(fields)
    else:
        create_output_console().print(_render_withheld_text(found))


async def _load_withheld_text(
    log: EventLog, blobs: BlobStore, tenant: str, session: str, turn: int
) -> WithheldText:
    last = await log.read_last_event(tenant, session)
    if last is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    recorded, redacted = _find_redaction(await log.read_range(tenant, session, None, last), turn)
    if redacted.withheld is None:
        detail = f"the reply of turn {turn} was recorded before it was withheld"
        tail = f"turnlog tail {session} --no-follow --stored"
        fix = f"its text is in the event of the turn: `{tail}`"
        raise Refused("no-withheld-text", detail, field="turn", fix=fix)
    text = decode_withheld_text(await blobs.get_blob(tenant, redacted.withheld))
    return WithheldText(
        cause=build_event_ref(recorded),
        rule=redacted.rule,
        reason=redacted.reason,
        digest=redacted.withheld,
        text=text,
    )


def _find_redaction(
    events: Sequence[RecordedEvent], turn: int
) -> tuple[RecordedEvent, ReplyRedacted]:
    for recorded in events:
        match recorded.event:
            case ReplyRedacted() as redacted if redacted.turn == turn:
                return recorded, redacted
            case _:
                pass
    raise Refused("no-withheld-text", f"nothing was withheld from turn {turn}", field="turn")


def _render_withheld_text(found: WithheldText) -> Group:
    rule = Text(f"by {found.rule}", BAD).append(f": {escape_controls(found.reason)}  ", "default")
    digest = Text(f"blob {format_digest(found.digest)}, read from the log's own store", MUTED)
    return Group(
        render_labelled_text("withheld", found.text, BAD, LABEL_WIDTH),
        Text(),
        rule.append_text(render_cause(found.cause)),
        digest,
    )
