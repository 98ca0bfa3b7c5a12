"""Writes the reference of events and streams: a page, and JSON Schema for programs.

`make docs` runs it, and a test fails when a committed file differs from its output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel

from turnlog.contract.stream_payloads import (
    ApprovalPayload,
    AttemptResetPayload,
    ChildPayload,
    DebriefDonePayload,
    ExchangeDonePayload,
    PartPayload,
    ProgressPayload,
    ReasoningPayload,
    ReplyCancelledPayload,
    ReplyDonePayload,
    ReplyFailedPayload,
    ReplyRedactedPayload,
    TokenPayload,
    TurnStreamPayload,
    UnreadablePayload,
)
from turnlog.events.content import compute_digest
from turnlog.events.model.alert_events import AlertRuleEvent, KnownAlertEvent
from turnlog.events.model.installation.access_events import AccessEvent
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.model.installation.retention_events import RetentionEvent
from turnlog.events.model.installation.tenant_events import TenantConfigured
from turnlog.events.model.knowledge_events import KnowledgeEvent
from turnlog.events.model.override_events import OverrideEvent
from turnlog.events.model.quota_events import MediaLimitEvent, QuotaEvent
from turnlog.events.model.segment_events import SegmentEvent
from turnlog.events.model.webhook_events import WebhookEvent
from turnlog.events.registry import (
    ALERT_EVENT_TYPES,
    EVENT_TYPES,
    LIBRARY_EVENT_TYPES,
    LIBRARY_FAMILIES,
    READ_EVENT_TYPES,
    TENANT_EVENT_TYPES,
    format_event_name,
)
from turnlog.events.subjects import (
    ALERT_HISTORY,
    LIBRARY_HISTORY,
    READ_HISTORY,
    REPUBLISH_PREFIX,
    SESSION_HISTORY,
    TOKENS_STREAM,
    HistoryKind,
)
from turnlog.services.api.published_events.event_definitions import (
    TOKEN_EVENTS,
    TURN_STREAM_PAYLOADS,
    UNPROMISED_KEYWORD,
    build_event_definitions,
    get_data_name,
    get_envelope_name,
)
from turnlog.services.http.sse import encode_frame

FOLDER = Path(__file__).parents[1] / "reference"
SCHEMA = FOLDER / "events.schema.json"
PAGE = FOLDER / "events.md"

SCHEMA_DESCRIPTION = (
    "What Turnlog publishes about events: stored events (StoredEvent, StoredLibraryEvent, "
    "StoredAlertEvent, StoredReadEvent), pages of them, and the server-sent events of streams "
    "(TurnStreamEvent, EventStreamEvent)."
)

EXAMPLES: tuple[tuple[str, TurnStreamPayload], ...] = (
    ("3.1.5", TokenPayload(text="Hello")),
    ("3.1.0.r9", ReasoningPayload(call="3.1", attempt=1, offset=0, text="A harbour")),
    ("3.2.0", AttemptResetPayload(attempt=2)),
    ("3.1.0", ProgressPayload(call="3.2", doing="tool", tool="ship__arrivals")),
    (
        "3.1.0",
        ApprovalPayload(
            session="s-1",
            turn=3,
            approval=1,
            call="3.1",
            id="call_7",
            tool="shop_pay",
            arguments='{"what": "hammer"}',
            digest=compute_digest('{"what": "hammer"}'),
            deadline="2026-01-01T12:00:00.000000Z",
            decision=None,
        ),
    ),
    (
        "3.1.0",
        ChildPayload(
            session="s-2",
            turn=1,
            parent="s-1",
            profile="researcher",
            call="3.1",
            doing="tool",
            tool="search",
        ),
    ),
    (
        "3.2.5",
        PartPayload(
            kind="image",
            digest=compute_digest("a picture"),
            size=9,
            media_type="image/png",
            at=6,
        ),
    ),
    ("3.2.5.done", ReplyDonePayload(finish="stop", turn=3, sequence=27)),
    (
        "3.2.5.done",
        ExchangeDonePayload(
            finish="stop", phase_transition="ready", next_phase="review", exchanges_count=4
        ),
    ),
    ("3.2.5.done", DebriefDonePayload(finish="stop", debrief_complete=True)),
    ("3.2.3.failed", ReplyFailedPayload(code="rate_limited", retryable=True, partial="Hel")),
    ("3.2.3.cancelled", ReplyCancelledPayload(reason="interrupted")),
    (
        "3.2.5.redact",
        ReplyRedactedPayload(reason="it names a person", replacement="This reply was withheld."),
    ),
)
"""Id and data of one event of a turn's stream, by payload."""

HEAD = """\
# Events and streams

What a program that reads events can rely on. [events.schema.json](events.schema.json) has the same
as JSON Schema (2020-12): its root is any event of a session, `#/$defs/TurnStreamEvent` and
`#/$defs/EventStreamEvent` are the server-sent events, with their `data` parsed, `#/$defs/TokenEvent` is
what NATS has of a reply while it is generated. The [OpenAPI document](openapi.json) contains the same
definitions under the same names, and the [AsyncAPI 3 document](asyncapi.json) (`GET /asyncapi.json`)
says on which subject or stream each of them comes. The folder `schemas` has a file for each type of
events, and one for all of each kind (`TokenEvent.json`); none refers to another file.

Objects are open, because a reader must not refuse what a later release adds. Generators that add an
index signature for that are better told not to: `json2ts --no-additionalProperties`.

## What is promised

The type of a stored event ends with its version: `turnlog.turn-completed.v1`. As long as a type has
this version, its fields keep their names, their types and their meaning, a required field stays
required, and the event keeps its subject. A new meaning is a new version. Stored events are never
rewritten, so old sessions keep the old version. The same holds for the data of server-sent events,
which have no version.

A release may add event types, fields, server-sent events, and words to a list of words such as
`outcome`. **Ignore what you do not know.** An optional field may be missing; the tables have the value
that it then stands for in brackets, if there is one.

A turn ends exactly once: with `turn-completed`, `turn-failed`, `turn-cancelled`, or with
`reply-redacted` if its reply was withheld before it was recorded. `reply-redacted` may also follow
later, and then replaces the recorded reply. A program that stores replies has to handle it.

Not promised:

- fields with † in the tables below, each with the reason (`x-not-promised` in the schemas);
- the order of fields, and which events a turn records between its first and its last;
- how many `token` events a text comes in, and where it is divided;
- the streams `BLOBS` and `SNAPSHOTS` of NATS, and what is in them.

## Where events are read

| what | where | its place | how it goes on |
|---|---|---|---|
| a session | `GET /v1/sessions/{session}/events` | `sequence` of the session | `after`, or `Last-Event-ID` of the stream |
| all sessions | `GET /v1/events` | stream sequence: `after` of a page, `id` in the stream | the same |
| the reply of a turn | `GET /v1/sessions/{session}/turns/{turn}/stream` | cursor: the `id` in the stream | `Last-Event-ID`, or `after` |

The first two answer with a JSON page, with lines (`Accept: application/x-ndjson`), or with a stream
that goes on as events are recorded (`Accept: text/event-stream`). A consumer that stores the place of
an event after it has handled the event misses none; one that stores both in one write handles none
twice. [A consumer in node](../consuming.md) is such a program.

## Subjects

A program inside the installation may read the log from NATS as well: with a JetStream consumer of
the stream `{sessions}` or `{library}`, which starts at any event, or with a plain subscription to the
same subject behind `{live}.`, where the server repeats each message of `{sessions}` when it stores it,
at most once. A message is a stored event. It uses the login of [consumers](../consuming-nats.md), which can
publish nothing. Unlike
HTTP, NATS also shows texts that a redaction withholds: the program has to apply `reply-redacted`.

"""  # noqa: E501 - tables

TOKENS = """\

## Tokens on NATS

`tokens.TENANT.SESSION.TURN` in the stream `{tokens}`, which is kept in memory for some minutes, and behind
`live.`. A message is one of the events below; `kind` says which. The text of a reply is made of the
`token` events of its highest `attempt`, each at its `offset` in code points; `attempt-reset` makes the
text before it void. `attempt-closed` has the length and the digest of the whole text. On `live.` the
header `Nats-Last-Sequence` has the place of the message before it on the subject: where that is not the
last one that was seen, the missing ones are read from the stream, or the text is taken from the event
that ends the turn, which is the record.
"""  # noqa: E501 - text of the page

TURN_STREAM = """\

## The stream of a turn

`GET /v1/sessions/{session}/turns/{turn}/stream`, or a submit with `Accept: text/event-stream`. The
`id` is a cursor: turn, attempt, the number of code points received, and the name of the last event
(`3.2.5.done`). Send it back as it is.

The texts of all `token` events since the last `attempt-reset` are the reply. The stream ends with
exactly one of `done`, `failed`, `cancelled` and `redact`. A client that reconnects after that gets
204, or `redact` if the reply was withheld in the meantime.

"""

EVENT_STREAMS = """\

## The streams of stored events

`GET /v1/sessions/{session}/events` and `GET /v1/events` with `Accept: text/event-stream`. The name of
an event is its type without `turnlog.` and the version, the data is the stored event, the `id` its
place. A redaction applies to what follows it: events sent before it are not sent again. In the place
of an event that cannot be read there is:

"""  # noqa: E501 - text of the page

ENVELOPE = """\

## The envelope

A stored event is one [CloudEvents 1.0](https://cloudevents.io) object: the fields below, its `type`,
and its `data`, which the rest of the page lists by family. Over HTTP, an event whose text was withheld
later has the replacement in `data`, and the fields `withheldby` and `storedat`; its bytes are not
those that the hash chain covers. Events of the library have the family of the library as `subject`.
"""  # noqa: E501 - text of the page

FOOT = """\

## Parts

What the data of several events consists of.
"""


def build_schema() -> dict[str, Any]:
    """Return the JSON Schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events and streams of Turnlog",
        "description": SCHEMA_DESCRIPTION,
        "$ref": "#/$defs/StoredEvent",
        "$defs": build_event_definitions("#/$defs/"),
    }


def format_schema() -> str:
    """Return the text of the schema file."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False) + "\n"


def format_page() -> str:
    """Return the text of the page."""
    definitions = build_event_definitions("#/$defs/")
    return "\n".join(_PageWriter(definitions).iterate_lines()) + "\n"


class _PageWriter:
    """Writes the page from the definitions."""

    def __init__(self, definitions: Mapping[str, dict[str, Any]]) -> None:
        self.definitions = definitions
        kinds = (*EVENT_TYPES.values(), *TENANT_EVENT_TYPES.values())
        events = {get_data_name(kind.__name__) for kind in (*kinds, *TOKEN_EVENTS.values())}
        parts = (name for name in definitions if name.endswith("Data"))
        self.parts = [name for name in parts if name not in events]

    def iterate_lines(self) -> Iterator[str]:
        """Yield the lines of the page."""
        values = {
            "{sessions}": SESSION_HISTORY.stream,
            "{library}": LIBRARY_HISTORY.stream,
            "{live}": REPUBLISH_PREFIX,
        }
        head = HEAD
        for word, value in values.items():
            head = head.replace(word, value)
        yield head.rstrip("\n") + "\n"
        yield from _iterate_subjects()
        yield TOKENS.replace("{tokens}", TOKENS_STREAM).rstrip("\n")
        for kind in TOKEN_EVENTS.values():
            name = get_data_name(kind.__name__)
            yield f"\n### {kind.model_fields['kind'].default}\n"
            yield from self._iterate_definition(name)
        yield TURN_STREAM.rstrip("\n")
        for kind in TURN_STREAM_PAYLOADS:
            yield from self._iterate_payload(kind)
        yield EVENT_STREAMS.rstrip("\n")
        yield from self._iterate_payload(UnreadablePayload)
        yield ENVELOPE.rstrip("\n") + "\n"
        yield from self._iterate_fields("EventEnvelope")
        yield from self._iterate_families()
        yield FOOT.rstrip("\n")
        for name in self.parts:
            yield f"\n### {name}\n"
            yield from self._iterate_definition(name)

    def _iterate_payload(self, kind: type[TurnStreamPayload | UnreadablePayload]) -> Iterator[str]:
        yield f"\n### {kind.event}: {kind.__name__}\n"
        yield from self._iterate_definition(kind.__name__)
        for cursor, payload in EXAMPLES:
            if type(payload) is kind:
                frame = encode_frame(payload.event, payload.model_dump_json().encode(), cursor)
                yield f"\n```text\n{frame.decode().strip()}\n```"

    def _iterate_families(self) -> Iterator[str]:
        by_family: dict[str, list[type[BaseModel]]] = {}
        for known in EVENT_TYPES.values():
            by_family.setdefault(known.leaf.partition(".")[0], []).append(known)
        by_family["segment library"] = list(get_args(SegmentEvent))
        by_family["knowledge"] = list(get_args(KnowledgeEvent))
        by_family["prompt override"] = list(get_args(OverrideEvent))
        by_family["quota"] = [*get_args(QuotaEvent), *get_args(MediaLimitEvent)]
        by_family["webhook"] = list(get_args(WebhookEvent))
        by_family["key"] = list(get_args(AccessEvent))
        by_family["tenant"] = [TenantConfigured]
        by_family["retention"] = list(get_args(RetentionEvent))
        by_family["rule of an alert"] = list(get_args(AlertRuleEvent))
        by_family["alert"] = list(get_args(KnownAlertEvent))
        by_family["log of reads"] = [RecordRead]
        for family, kinds in by_family.items():
            yield f"\n## Events: {family}"
            for kind in kinds:
                yield from self._iterate_event(kind)

    def _iterate_event(self, kind: Any) -> Iterator[str]:  # noqa: ANN401 - an event class
        history = _find_history(kind)
        yield f"\n### {format_event_name(kind.type)}\n"
        yield f"`{kind.type}` in `{_format_subject(history, kind)}`;"
        yield f"schema `#/$defs/{get_envelope_name(kind)}`\n"
        yield from self._iterate_definition(get_data_name(kind.__name__))

    def _iterate_definition(self, name: str) -> Iterator[str]:
        definition = self.definitions[name]
        yield definition.get("description", "").replace("\n", " ") + "\n"
        yield from self._iterate_fields(name)

    def _iterate_fields(self, name: str) -> Iterator[str]:
        definition = self.definitions[name]
        fields: Mapping[str, Any] = definition.get("properties", {})
        if not fields:
            return
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        required = definition.get("required", ())
        for field, schema in fields.items():
            mark = "" if field in required else ", optional"
            if mark and "default" in schema:
                mark += f" (`{json.dumps(schema['default'])}`)"
            reason = schema.get(UNPROMISED_KEYWORD)
            shown = f"`{field}`{' †' if reason else ''}"
            note = f" † {reason}." if reason else ""
            kind = self._format_type(schema)
            meaning = (schema.get("description", "") + note).replace("|", "\\|")
            yield f"| {shown} | {kind}{mark} | {meaning} |"

    def _format_type(self, schema: Mapping[str, Any]) -> str:
        """Return a type as the page shows it."""
        match schema:
            case {"$ref": str(reference)}:
                return self._format_reference(reference.rpartition("/")[2])
            case {"anyOf": [*kinds]} | {"oneOf": [*kinds]}:
                return " or ".join(self._format_type(kind) for kind in kinds)
            case {"enum": [*words]}:
                return " ".join(f"`{word}`" for word in words)
            case {"const": value}:
                return f"`{json.dumps(value) if value is True else value}`"
            case {"type": "array", "items": items}:
                return f"list of {self._format_type(items)}"
            case {"type": "object", "additionalProperties": values}:
                return f"object of {self._format_type(values)}"
            case {"type": str(name)}:
                return name
            case _:
                return "any JSON"

    def _format_reference(self, name: str) -> str:
        if name in self.parts:
            return f"[{name}](#{name.lower()})"
        return self._format_type({}) if name == "JsonValue" else f"`{name}`"


_HISTORIES: Final[Mapping[HistoryKind, Mapping[str, Any]]] = {
    SESSION_HISTORY: EVENT_TYPES,
    LIBRARY_HISTORY: LIBRARY_EVENT_TYPES,
    ALERT_HISTORY: ALERT_EVENT_TYPES,
    READ_HISTORY: READ_EVENT_TYPES,
}


def _find_history(kind: Any) -> HistoryKind:  # noqa: ANN401 - an event class
    (found,) = (history for history, types in _HISTORIES.items() if kind.type in types)
    return found


def _iterate_subjects() -> Iterator[str]:
    yield "| subject | events |"
    yield "|---|---|"
    for history, types in _HISTORIES.items():
        by_subject: dict[str, list[str]] = {}
        for wire_type, kind in types.items():
            names = by_subject.setdefault(_format_subject(history, kind), [])
            names.append(f"`{format_event_name(wire_type)}`")
        for subject, names in sorted(by_subject.items()):
            yield f"| `{subject}` | {' '.join(names)} |"


def _format_subject(history: HistoryKind, kind: Any) -> str:  # noqa: ANN401 - an event class
    owner = LIBRARY_FAMILIES[kind] if history is LIBRARY_HISTORY else history.id_name.upper()
    return f"{history.prefix}.TENANT.{owner}.{kind.leaf}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    SCHEMA.write_text(format_schema())
    PAGE.write_text(format_page())
    print(SCHEMA, PAGE)
