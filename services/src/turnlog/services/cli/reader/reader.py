"""The client for everything that commands read; each method returns one HTTP answer.

Answers are validated, so that a service of another release is reported as such. Events are decoded
from their stored form. Nothing here changes a session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from turnlog.events import codec
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.projections.audit.checkpoint import HeadNoted
from turnlog.projections.audit.diff import Diff
from turnlog.projections.audit.why import Why
from turnlog.services.cli.reader.frames import frames
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.gateway.payloads.asked import ReferenceForm, TryForm
from turnlog.services.gateway.payloads.asking import MeantView, MemoryView, ReferencesView
from turnlog.services.gateway.payloads.calls import CallList
from turnlog.services.gateway.payloads.closed import Form
from turnlog.services.gateway.payloads.growth import GrowthView
from turnlog.services.gateway.payloads.memory import SummariesView
from turnlog.services.gateway.payloads.moving import PinList
from turnlog.services.gateway.payloads.prompts import PromptView, WindowView
from turnlog.services.gateway.payloads.segments import SegmentPage, SegmentView
from turnlog.services.gateway.payloads.service import BlueprintList
from turnlog.services.gateway.payloads.sessions import SessionPage, SessionView
from turnlog.services.gateway.payloads.tools import ToolResultView
from turnlog.services.gateway.payloads.turns import HistoryView
from turnlog.services.gateway.payloads.verify import VerifyView

SECONDS: Final = 60.0
"""Read timeout in seconds; event streams send a keep-alive more often than that."""
PATIENCE: Final = httpx.Timeout(SECONDS, read=600)
"""Timeout of requests that read a whole log or a whole session."""
Query = Mapping[str, str | int | bool | None]
View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to read."""

    session: str | None = None
    """Only this session; all if None."""
    after: int = 0
    """Only events after this sequence of the session, or of the stream when all are read."""
    types: str | None = None
    """Event names separated by commas; all if None."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A log entry that cannot be decoded."""

    said: str
    """JSON with its position and the reason."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads from one service."""

    client: httpx.AsyncClient
    live: bool = True
    """Whether new events can arrive; False if the data directory was opened without a service."""

    async def sessions(self, query: Query) -> SessionPage:
        """Return a page of sessions, newest first."""
        return await self._get(SessionPage, "/v1/sessions", query)

    async def session(self, session: str, at: int | None = None) -> SessionView:
        """Return a session from its own log, now or as of sequence `at`."""
        return await self._get(SessionView, f"/v1/sessions/{session}", {"at": at})

    async def history(
        self, session: str, at: int | None = None, phase: str | None = None
    ) -> HistoryView:
        """Return all turns, those up to sequence `at`, or those of a phase."""
        query: Query = {"at": at, "phase": phase}
        return await self._get(HistoryView, f"/v1/sessions/{session}/history", query)

    async def window(
        self, session: str, call: str | None, at: int | None, clock: str | None = None
    ) -> WindowView:
        """Return the window that a call would see, or would have seen at a sequence."""
        query: Query = {"call": call, "at": at, "clock": clock}
        return await self._get(WindowView, f"/v1/sessions/{session}/window", query)

    async def tried(self, session: str, asked: TryForm) -> WindowView:
        """Return the window of a turn that is only supposed."""
        return await self._post(WindowView, f"/v1/sessions/{session}/window", asked)

    async def memory(self, session: str, reader: str | None, entity: str | None) -> MemoryView:
        """Return the messages of earlier turns that a turn would include."""
        query = {"reader": reader, "entity": entity}
        return await self._get(MemoryView, f"/v1/sessions/{session}/memory", query)

    async def summaries(self, session: str) -> SummariesView:
        """Return the summaries that are in effect in the windows."""
        return await self._get(SummariesView, f"/v1/sessions/{session}/summaries")

    async def references(self, session: str) -> ReferencesView:
        """Return the last reference."""
        return await self._get(ReferencesView, f"/v1/sessions/{session}/references")

    async def meant(self, session: str, asked: ReferenceForm) -> MeantView:
        """Return what a reference resolves to."""
        return await self._post(MeantView, f"/v1/sessions/{session}/references/resolve", asked)

    async def calls(self, session: str) -> CallList:
        """Return all calls with their usage and cost."""
        return await self._get(CallList, f"/v1/sessions/{session}/calls")

    async def growth(self, query: Query) -> GrowthView:
        """Return the tokens by component of the calls of one session or of all."""
        return await self._get(GrowthView, "/v1/growth", query)

    async def prompt(self, session: str, call: str) -> PromptView:
        """Return the exact prompt of a call."""
        return await self._get(PromptView, f"/v1/sessions/{session}/calls/{call}/prompt")

    async def tool(self, session: str, call: str, id: str) -> ToolResultView:
        """Return the full result of a tool use."""
        path = f"/v1/sessions/{session}/calls/{call}/tools/{quote(id, safe='')}"
        return await self._get(ToolResultView, path)

    async def why(self, session: str, which: str) -> Why:
        """Explain a turn, `3`, or one of its calls, `3.1`."""
        what = "turns" if which.isdecimal() else "calls"
        return await self._get(Why, f"/v1/sessions/{session}/{what}/{which}/why")

    async def diff(self, session: str, calls: tuple[str, str], other: str | None) -> Diff:
        """Compare two calls; the second may belong to session `other`."""
        before, after = calls
        path = f"/v1/sessions/{session}/calls/{before}/diff/{after}"
        return await self._get(Diff, path, {"other": other})

    async def verify(self, session: str, noted: HeadNoted | None = None) -> VerifyView:
        """Verify a session, and a head of it that was noted earlier."""
        query: Query = {"noted": noted.sequence, "head": noted.hash} if noted else {}
        return await self._get(VerifyView, f"/v1/sessions/{session}/verify", query, PATIENCE)

    async def segments(self, query: Query) -> SegmentPage:
        """Return a page of segments, ordered by number."""
        return await self._get(SegmentPage, "/v1/segments", query)

    async def segment(self, segment: int) -> SegmentView:
        """Return a segment with all of its versions."""
        return await self._get(SegmentView, f"/v1/segments/{segment}")

    async def pins(self, blueprint: str | None) -> PinList:
        """Return what open sessions are pinned to."""
        return await self._get(PinList, "/v1/pins", {"blueprint": blueprint})

    async def blueprints(self) -> BlueprintList:
        """Return the blueprints that a session can be opened with."""
        return await self._get(BlueprintList, "/v1/blueprints")

    async def _get(
        self,
        form: type[View],
        path: str,
        query: Query | None = None,
        patience: httpx.Timeout | float = SECONDS,
    ) -> View:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        with reaching(str(self.client.base_url)):
            answer = checked(await self.client.get(path, params=given, timeout=patience))
        return _read(form, path, answer)

    async def _post(self, form: type[View], path: str, asked: Form) -> View:
        """Send a query that needs a body; it changes nothing."""
        with reaching(str(self.client.base_url)):
            answer = checked(await self.client.post(path, json=asked.model_dump(mode="json")))
        return _read(form, path, answer)

    async def events(self, wanted: Wanted) -> AsyncGenerator[Recorded]:
        """Yield the events recorded so far, in order."""
        async with self._lines(wanted, "application/x-ndjson") as lines:
            async for line in lines:
                yield codec.read(line.encode(), 0)

    async def watch(self, wanted: Wanted) -> AsyncGenerator[Recorded | Unreadable]:
        """Yield the recorded events, then new ones; undecodable entries are yielded as well."""
        async with self._lines(wanted, "text/event-stream") as lines:
            async for frame in frames(lines):
                if frame.name == "unreadable":
                    yield Unreadable(frame.data)
                else:
                    yield codec.read(frame.data.encode(), 0)

    @asynccontextmanager
    async def _lines(self, wanted: Wanted, form: str) -> AsyncGenerator[AsyncIterator[str]]:
        session = f"sessions/{wanted.session}/" if wanted.session else ""
        query = {"after": wanted.after} | ({"types": wanted.types} if wanted.types else {})
        headers = {"Accept": form}
        with reaching(str(self.client.base_url)):
            path = f"/v1/{session}events"
            async with self.client.stream("GET", path, params=query, headers=headers) as answer:
                if not answer.is_success:
                    await answer.aread()
                yield checked(answer).aiter_lines()


def _read(form: type[View], path: str, answer: httpx.Response) -> View:
    try:
        return TypeAdapter(form).validate_json(answer.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{path}: {first['msg']} at {'.'.join(str(step) for step in first['loc'])}"
        fix = "use the command line of the service's own release"
        raise Refused("other-release", detail, fix=fix) from None
