"""The server-sent events of a service: decoding their frames, and what a turn stream says.

Decoding is free of I/O, so the blocking client and the asynchronous one share it.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, JsonValue

from turnlog.client.answer_bounds import MAX_LINE_BYTES, check_size
from turnlog.client.request_errors import create_form_error
from turnlog.contract.stream_payloads import (
    DebriefDonePayload,
    ExchangeDonePayload,
    PartPayload,
    ReplyDonePayload,
    StreamedResetPayload,
    StreamedTokenPayload,
)


@dataclass(frozen=True, slots=True)
class SseMessage:
    """One server-sent event."""

    name: str
    data: str
    cursor: str
    """The value to send back as `Last-Event-ID`."""


@dataclass(slots=True)
class LineDecoder:
    """Decodes bytes into lines as they arrive.

    Only a line feed ends a line: JSON has other line separators within its texts.
    """

    _incomplete: bytearray = field(default_factory=bytearray)

    def decode_bytes(self, piece: bytes) -> Iterator[str]:
        """Yield the lines that a piece completes."""
        self._incomplete += piece
        lines: list[bytearray] = []
        if b"\n" in piece:
            *lines, self._incomplete = self._incomplete.split(b"\n")
        for line in (*lines, self._incomplete):
            check_size(len(line), MAX_LINE_BYTES, "a line of the answer")
        for line in lines:
            yield _decode_text(line.removesuffix(b"\r"))

    def flush(self) -> Iterator[str]:
        """Yield what follows the last line feed, if anything does."""
        if self._incomplete:
            yield _decode_text(self._incomplete)


def _decode_text(line: bytearray) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise create_form_error(error) from None


@dataclass(slots=True, kw_only=True)
class SseDecoder:
    """Decodes the bytes of an event stream as they arrive."""

    cursor: str = ""
    """That of the latest event; an event without one has that of the event before."""
    _lines: LineDecoder = field(default_factory=LineDecoder)
    _name: str = "message"
    _data: list[str] = field(default_factory=list[str])
    _data_size: int = 0

    def decode_bytes(self, piece: bytes) -> Iterator[SseMessage]:
        """Yield the events that a piece of the stream completes."""
        for line in self._lines.decode_bytes(piece):
            yield from self._decode_line(line)

    def _decode_line(self, line: str) -> Iterator[SseMessage]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "id":
                self.cursor = value
            case "data":
                self._data_size += len(value) + 1
                check_size(self._data_size, MAX_LINE_BYTES, "an event of the stream")
                self._data.append(value)
            case "" if not line:
                if self._data:
                    yield SseMessage(self._name, "\n".join(self._data), self.cursor)
                self._name, self._data, self._data_size = "message", [], 0
            case _:  # A comment keeps the connection alive; `retry` is for browsers.
                pass


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A piece of the reply."""

    text: str
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningEvent:
    """A piece of what the model reasons, which is no part of the reply."""

    call: str
    """The call that reasons."""
    attempt: int
    offset: int
    """Where the piece begins in the reasoning of that attempt."""
    text: str
    cursor: str


@dataclass(frozen=True, slots=True)
class PartEvent:
    """A picture, a recording or a file of the reply; `fetch_blob` returns its bytes."""

    part: PartPayload
    cursor: str


@dataclass(frozen=True, slots=True)
class AttemptResetEvent:
    """The text so far is void, and the reply starts again."""

    attempt: int
    cursor: str


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """What the turn does before its reply begins, such as a tool; a hint."""

    call: str
    doing: str
    tool: str | None
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalEvent:
    """A tool that waits for a person's approval, or about which it was decided.

    It comes again where a stream is opened while the tool waits.
    """

    approval: int
    """The number to decide it by."""
    tool: str
    arguments: str
    """The arguments as the model wrote them."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decision: str | None
    """`approve` or `refuse`; None while the tool waits."""
    cursor: str
    session: str
    """The session to decide it in: that of the turn, or a child session that it asked."""
    turn: int
    """The number of the turn in that session."""
    digest: str | None = None
    """The digest of the arguments, which a decision names as `shown`; None from a service that has
    none.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvent:
    """What a child of a coordinator's turn is doing; a hint.

    It comes again where a stream is opened meanwhile.
    """

    session: str
    """The child session."""
    turn: int
    """The number of the turn in it."""
    parent: str
    """The session that asked for it: that of the stream, or another child of it."""
    profile: str
    call: str
    """The call of the parent whose answer asked for it."""
    doing: str
    """`started`, `tool`, `text` or `ended`."""
    tool: str | None
    """The tool that it runs."""
    characters: int | None
    """How many code points of its answer were written."""
    outcome: str | None
    """What came of it, once it ended."""
    cursor: str


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The turn is completed; its reply is the joined text since the last reset."""

    data: ReplyDonePayload | ExchangeDonePayload | DebriefDonePayload
    """The recorded reply: an exchange or a debrief in a phase."""
    cursor: str

    @property
    def output(self) -> JsonValue:
        """The reply as the value that it is, where its call requires a schema; otherwise None."""
        return self.data.output


@dataclass(frozen=True, slots=True)
class RedactEvent:
    """The reply was withheld; the replacement is shown instead of all text so far."""

    reason: str
    replacement: str
    cursor: str


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """The turn has failed."""

    code: str
    retryable: bool
    """Whether the same turn may succeed if it is submitted again."""
    partial: str
    """The beginning of what was generated."""
    cursor: str


@dataclass(frozen=True, slots=True)
class CancelledEvent:
    """The turn was cancelled."""

    reason: str
    cursor: str


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """An event of a name that this client does not know."""

    name: str
    data: dict[str, Any]
    cursor: str


TurnEvent = (
    TokenEvent
    | ReasoningEvent
    | PartEvent
    | AttemptResetEvent
    | ProgressEvent
    | ApprovalEvent
    | ChildEvent
    | DoneEvent
    | RedactEvent
    | FailedEvent
    | CancelledEvent
    | OtherEvent
)
"""One event of a turn stream."""

EndEvent = DoneEvent | RedactEvent | FailedEvent | CancelledEvent
"""The events that end a turn stream."""


class StoredEnvelope(BaseModel):
    """Everything around the data of an event of the log, as CloudEvents 1.0."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    id: str
    """A UUID of the event."""
    type: str
    """Its type with its version, such as `turnlog.turn-completed.v1`."""
    source: str
    """The process that wrote it."""
    subject: str
    """The session."""
    time: str
    """When the event was decided: RFC 3339 in UTC, by the writer's clock."""
    tenant: str
    """The tenant that owns the session."""
    sequence: int
    """Position in the session: 1..n without a gap."""
    actor: str
    """On whose behalf the event was written."""
    prevhash: str | None = None
    """Digest of the stored bytes of the session's previous event."""
    causationid: str | None = None
    """Id of the event that caused this one."""
    correlationid: str | None = None
    """Groups the events of one operation."""
    traceparent: str | None = None
    """W3C trace context."""
    copyof: str | None = None
    """Id of the original event, in the session that this one was forked from."""
    withheldby: int | None = None
    """Sequence of the redaction by which a text of this event is withheld."""
    storedat: str | None = None
    """Path of the stored bytes of the event."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event of the log as its reader gets it."""

    name: str
    """Its type, such as `turn-completed`."""
    cursor: str
    """The position to go on from: the `sequence` in a session, the stream sequence in a tenant."""
    data: dict[str, Any]
    """The payload of the event, which its type describes."""
    envelope: StoredEnvelope | None
    """What is around the payload; None for `unreadable`, `token` and `attempt-reset`."""


UNREADABLE_NAME: Final = "unreadable"
"""The name of the frame in place of an event that was damaged or lost."""

_UNRECORDED_NAMES: Final = (
    UNREADABLE_NAME,
    StreamedTokenPayload.event,
    StreamedResetPayload.event,
)


def parse_session_event(message: SseMessage) -> SessionEvent:
    """Return the event of the log that a message holds; raises `UnusableAnswer` for another."""
    with _convert_form_errors():
        return _parse_session_event(message)


def _parse_session_event(message: SseMessage) -> SessionEvent:
    event: dict[str, Any] = json.loads(message.data)
    if message.name in _UNRECORDED_NAMES:
        return SessionEvent(message.name, message.cursor, event, None)
    envelope = StoredEnvelope.model_validate(event)
    return SessionEvent(message.name, message.cursor, event.get("data") or {}, envelope)


def parse_turn_event(message: SseMessage) -> TurnEvent:
    """Return the event of a turn stream that a message holds; raises `UnusableAnswer`."""
    with _convert_form_errors():
        return _parse_turn_event(message)


@contextmanager
def _convert_form_errors() -> Generator[None]:
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise create_form_error(error) from None


def _parse_turn_event(message: SseMessage) -> TurnEvent:
    data: dict[str, Any] = json.loads(message.data)
    cursor = message.cursor
    match message.name:
        case "token":
            return TokenEvent(data["text"], cursor)
        case "reasoning":
            return ReasoningEvent(
                call=data["call"],
                attempt=data["attempt"],
                offset=data["offset"],
                text=data["text"],
                cursor=cursor,
            )
        case "attempt-reset":
            return AttemptResetEvent(data["attempt"], cursor)
        case "progress":
            return ProgressEvent(data["call"], data["doing"], data.get("tool"), cursor)
        case "part":
            return PartEvent(PartPayload.model_validate(data), cursor)
        case "approval":
            approval, tool, arguments = data["approval"], data["tool"], data["arguments"]
            deadline, decision = data["deadline"], data["decision"]
            session, turn = data["session"], data["turn"]
            return ApprovalEvent(
                approval=approval,
                tool=tool,
                arguments=arguments,
                deadline=deadline,
                decision=decision,
                cursor=cursor,
                session=session,
                turn=turn,
                digest=data.get("digest"),
            )
        case "child":
            return ChildEvent(
                session=data["session"],
                turn=data["turn"],
                parent=data["parent"],
                profile=data["profile"],
                call=data["call"],
                doing=data["doing"],
                tool=data.get("tool"),
                characters=data.get("characters"),
                outcome=data.get("outcome"),
                cursor=cursor,
            )
        case "done":
            return DoneEvent(_parse_done_data(data), cursor)
        case "redact":
            return RedactEvent(data["reason"], data["replacement"], cursor)
        case "failed":
            return FailedEvent(data["code"], data["retryable"], data["partial"], cursor)
        case "cancelled":
            return CancelledEvent(data["reason"], cursor)
        case name:
            return OtherEvent(name, data, cursor)


def _parse_done_data(
    data: dict[str, Any],
) -> ReplyDonePayload | ExchangeDonePayload | DebriefDonePayload:
    if "debrief_complete" in data:
        return DebriefDonePayload.model_validate(data)
    if "exchanges_count" in data:
        return ExchangeDonePayload.model_validate(data)
    return ReplyDonePayload.model_validate(data)
