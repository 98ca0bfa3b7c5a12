"""The client for everything that commands read; each method returns one HTTP answer.

Answers are validated, so that a service of another release is reported as such. Events are decoded
from their stored form. Nothing here changes a session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import Discriminator, TypeAdapter, ValidationError

from turnlog.events import codec
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint, CheckpointHead
from turnlog.services.api.call_payloads import CallList, GrowthView, ToolResultView
from turnlog.services.api.memory_payloads import (
    ExclusionPreviewView,
    MemoryView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
)
from turnlog.services.api.payload_models import RequestModel
from turnlog.services.api.prompt_payloads import AssembledPromptView, RecordedPromptView, WindowView
from turnlog.services.api.requests import (
    AssembleRequest,
    ResolveReferencesRequest,
    WindowPreviewRequest,
)
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintSchemas,
    PinnedTextList,
    QuarantineView,
    StoppedSessionList,
)
from turnlog.services.api.session_payloads import SessionPage, SessionView
from turnlog.services.api.tenant.segment_payloads import SegmentPage, SegmentView
from turnlog.services.api.turn_payloads import HistoryView
from turnlog.services.api.verify_payloads import (
    VerificationView,
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.cli.client.http_responses import (
    require_event_line,
    send_request,
    stream_lines,
    stream_messages,
)

TIMEOUT_SECONDS: Final = 60.0
"""Read timeout in seconds; event streams send a keep-alive more often than that."""

LONG_TIMEOUT: Final = httpx.Timeout(TIMEOUT_SECONDS, read=600)
"""Timeout of requests that read a whole log or a whole session."""

QueryParameters = Mapping[str, str | int | bool | None]

ViewT = TypeVar("ViewT")


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events to read."""

    session: str | None = None
    """Only this session; all if None."""
    after: int = 0
    """Only events after this sequence of the session, or of the stream when all are read."""
    types: str | None = None
    """Event names separated by commas; all if None."""
    stored: bool = False
    """Whether to read the stored bytes of withheld texts too."""


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A log entry that cannot be decoded."""

    json_text: str
    """JSON with its position and the reason."""


@dataclass(frozen=True, slots=True)
class ServiceReader:
    """Reads from one service."""

    client: httpx.AsyncClient
    is_live: bool = True
    """Whether new events can arrive; False if the data directory was opened without a service."""

    async def list_sessions(self, query: QueryParameters) -> SessionPage:
        """Return a page of sessions, newest first."""
        return await self._get_view(SessionPage, "/v1/sessions", query)

    async def fetch_session(self, session: str, at: int | None = None) -> SessionView:
        """Return a session from its own log, now or as of sequence `at`."""
        return await self._get_view(SessionView, f"/v1/sessions/{session}", {"at": at})

    async def fetch_history(
        self, session: str, at: int | None = None, phase: str | None = None
    ) -> HistoryView:
        """Return all turns, those up to sequence `at`, or those of a phase."""
        query: QueryParameters = {"at": at, "phase": phase}
        return await self._get_view(HistoryView, f"/v1/sessions/{session}/history", query)

    async def fetch_window(
        self, session: str, call: str | None, at: int | None, clock: str | None = None
    ) -> WindowView:
        """Return the window that a call would see, or would have seen at a sequence."""
        query: QueryParameters = {"call": call, "at": at, "clock": clock}
        return await self._get_view(WindowView, f"/v1/sessions/{session}/window", query)

    async def preview_window(self, session: str, request: WindowPreviewRequest) -> WindowView:
        """Return the window of a turn that is only supposed."""
        return await self._post_request(WindowView, f"/v1/sessions/{session}/window", request)

    async def assemble_prompt(self, request: AssembleRequest) -> AssembledPromptView:
        """Return the prompt of a blueprint without a session."""
        return await self._post_request(AssembledPromptView, "/v1/assemble", request)

    async def fetch_memory(
        self, session: str, audience: str | None, entity: str | None
    ) -> MemoryView:
        """Return the messages of earlier turns that a turn would include."""
        query = {"reader": audience, "entity": entity}
        return await self._get_view(MemoryView, f"/v1/sessions/{session}/memory", query)

    async def preview_exclusion(self, session: str, turn: int) -> ExclusionPreviewView:
        """Return what excluding a turn would undo."""
        path = f"/v1/sessions/{session}/turns/{turn}/exclusion"
        return await self._get_view(ExclusionPreviewView, path)

    async def list_summaries(self, session: str) -> SummariesView:
        """Return the summaries that are in effect in the windows."""
        return await self._get_view(SummariesView, f"/v1/sessions/{session}/summaries")

    async def fetch_references(self, session: str) -> ReferencesView:
        """Return the last reference."""
        return await self._get_view(ReferencesView, f"/v1/sessions/{session}/references")

    async def resolve_reference(
        self, session: str, request: ResolveReferencesRequest
    ) -> ResolvedReferencesView:
        """Return what a reference resolves to."""
        return await self._post_request(
            ResolvedReferencesView, f"/v1/sessions/{session}/references/resolve", request
        )

    async def list_calls(self, session: str) -> CallList:
        """Return all calls with their usage and cost."""
        return await self._get_view(CallList, f"/v1/sessions/{session}/calls")

    async def fetch_growth(self, query: QueryParameters) -> GrowthView:
        """Return the tokens by component of the calls of one session or of all."""
        return await self._get_view(GrowthView, "/v1/growth", query)

    async def find_reply_call(self, session: str, which: str) -> str:
        """Return the call that gave the reply of a turn (3); a call (3.1) is returned as it is."""
        if not which.isdecimal():
            return which
        return (await self.fetch_explanation(session, which)).call

    async def fetch_prompt(self, session: str, which: str) -> RecordedPromptView:
        """Return the exact prompt of a call, or of the call that gave the reply of a turn."""
        call = await self.find_reply_call(session, which)
        return await self._get_view(
            RecordedPromptView, f"/v1/sessions/{session}/calls/{call}/prompt"
        )

    async def fetch_tool_result(self, session: str, call: str, id: str) -> ToolResultView:
        """Return the full result of a tool use."""
        path = f"/v1/sessions/{session}/calls/{call}/tools/{quote(id, safe='')}"
        return await self._get_view(ToolResultView, path)

    async def fetch_explanation(self, session: str, which: str) -> TurnExplanation:
        """Explain a turn, `3`, or one of its calls, `3.1`."""
        what = "turns" if which.isdecimal() else "calls"
        return await self._get_view(TurnExplanation, f"/v1/sessions/{session}/{what}/{which}/why")

    async def fetch_diff(self, session: str, calls: tuple[str, str], other: str | None) -> CallDiff:
        """Compare two calls, or those of two replies; the second may be of session `other`."""
        before = await self.find_reply_call(session, calls[0])
        after = await self.find_reply_call(other or session, calls[1])
        path = f"/v1/sessions/{session}/calls/{before}/diff/{after}"
        return await self._get_view(CallDiff, path, {"other": other})

    async def verify_session(
        self, session: str, noted: CheckpointHead | None = None
    ) -> VerificationView:
        """Verify a session, and a head of it that was noted earlier."""
        query: QueryParameters = {"noted": noted.sequence, "head": noted.hash} if noted else {}
        return await self._get_view(
            VerificationView, f"/v1/sessions/{session}/verify", query, LONG_TIMEOUT
        )

    async def list_segments(self, query: QueryParameters) -> SegmentPage:
        """Return a page of segments, ordered by number."""
        return await self._get_view(SegmentPage, "/v1/segments", query)

    async def fetch_segment(self, segment: int) -> SegmentView:
        """Return a segment with all of its versions."""
        return await self._get_view(SegmentView, f"/v1/segments/{segment}")

    async def list_stopped_sessions(self) -> StoppedSessionList:
        """Return the sessions whose read models are stopped."""
        return await self._get_view(StoppedSessionList, "/v1/quarantine")

    async def fetch_quarantine(self, session: str) -> QuarantineView:
        """Return the events of a stopped session that wait."""
        return await self._get_view(QuarantineView, f"/v1/quarantine/{session}")

    async def list_pins(self, blueprint: str | None) -> PinnedTextList:
        """Return what open sessions are pinned to."""
        return await self._get_view(PinnedTextList, "/v1/pins", {"blueprint": blueprint})

    async def list_blueprints(self) -> BlueprintList:
        """Return the blueprints that a session can be opened with."""
        return await self._get_view(BlueprintList, "/v1/blueprints")

    async def fetch_blueprint(self, name: str) -> BlueprintSchemas:
        """Return a blueprint with the schemas of its values; raise `Refused` for an unknown one."""
        return await self._get_view(BlueprintSchemas, f"/v1/blueprints/{quote(name, safe='')}")

    async def _get_view(
        self,
        view_type: type[ViewT],
        path: str,
        query: QueryParameters | None = None,
        timeout: httpx.Timeout | float = TIMEOUT_SECONDS,
    ) -> ViewT:
        params = {name: value for name, value in (query or {}).items() if value is not None}
        request = self.client.build_request("GET", path, params=params, timeout=timeout)
        return _parse_view(view_type, path, await send_request(self.client, request))

    async def _post_request(
        self, view_type: type[ViewT], path: str, request: RequestModel
    ) -> ViewT:
        """Send a query that needs a body; it changes nothing."""
        body = request.model_dump(mode="json")
        response = await send_request(
            self.client, self.client.build_request("POST", path, json=body)
        )
        return _parse_view(view_type, path, response)

    async def read_events(self, query: EventQuery) -> AsyncGenerator[RecordedEvent]:
        """Yield the events recorded so far, in order."""
        request = self._build_event_request(query, "application/x-ndjson")
        async with aclosing(stream_lines(self.client, request)) as lines:
            async for line in lines:
                yield codec.decode_event(require_event_line(line).encode(), 0)

    async def watch_events(
        self, query: EventQuery
    ) -> AsyncGenerator[RecordedEvent | UnreadableLine]:
        """Yield the recorded events, then new ones; undecodable entries are yielded as well."""
        request = self._build_event_request(query, "text/event-stream")
        async with aclosing(stream_messages(self.client, request)) as messages:
            async for message in messages:
                if message.name == "unreadable":
                    yield UnreadableLine(message.data)
                else:
                    yield codec.decode_event(message.data.encode(), 0)

    def _build_event_request(self, query: EventQuery, content_type: str) -> httpx.Request:
        session = f"sessions/{query.session}/" if query.session else ""
        params = {"after": query.after} | ({"types": query.types} if query.types else {})
        params |= {"stored": "true"} if query.stored else {}
        headers = {"Accept": content_type}
        path = f"/v1/{session}events"
        return self.client.build_request("GET", path, params=params, headers=headers)


def _parse_view(view_type: type[ViewT], path: str, answer: httpx.Response) -> ViewT:
    try:
        return TypeAdapter(view_type).validate_json(answer.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{path}: {first['msg']} at {'.'.join(str(step) for step in first['loc'])}"
        fix = "use the command line of the service's own release"
        raise Refused("other-release", detail, fix=fix) from None


VerificationLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine

_VERIFICATION_LINE: Final[TypeAdapter[VerificationLine]] = TypeAdapter(
    Annotated[VerificationLine, Discriminator("kind")]
)


async def stream_verification(
    reader: ServiceReader, witness: AuditCheckpoint | None
) -> AsyncGenerator[VerificationLine]:
    """Stream the result of verifying everything, against a checkpoint if one is given.

    Raises `Unavailable` if the summary line is missing.
    """
    method, body = ("POST", witness.model_dump_json()) if witness else ("GET", None)
    headers = {"Content-Type": "application/json"} if witness else None
    request = reader.client.build_request(
        method, "/v1/verify", content=body, headers=headers, timeout=LONG_TIMEOUT
    )
    line: VerificationLine | None = None
    async with aclosing(stream_lines(reader.client, request)) as lines:
        async for text in lines:
            line = _VERIFICATION_LINE.validate_json(text)
            yield line
    if not isinstance(line, VerifySummaryLine):
        raise Unavailable("the service", "the response ended before the log was read to its end")


async def fetch_checkpoint(reader: ServiceReader) -> AuditCheckpoint:
    """Return the last sequence and hash of every session; raises `Corrupt` if a chain is broken."""
    request = reader.client.build_request("GET", "/v1/checkpoint", timeout=LONG_TIMEOUT)
    response = await send_request(reader.client, request)
    return AuditCheckpoint.model_validate_json(response.content)
