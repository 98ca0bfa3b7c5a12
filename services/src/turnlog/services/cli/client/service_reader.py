"""The client for what commands read of sessions, blueprints and the library.

Each method returns one HTTP answer. Answers are validated, so that a service of another release is
reported as such. Nothing here changes a session. The recorded events have a module of their own,
and so has the audit, because most commands need neither, nor the time it takes to import them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from turnlog.contract.call_payloads import CallList, GrowthView, ToolResultView
from turnlog.contract.knowledge_payloads import CollectionList, EntryPage
from turnlog.contract.override_payloads import (
    OVERRIDES_PATH,
    OverridePage,
    OverrideTextView,
    build_override_path,
)
from turnlog.contract.quota_payloads import QuotaPage, QuotaView, build_quota_path
from turnlog.contract.usage_payloads import UsageReport
from turnlog.events.errors import Refused
from turnlog.services.api.memory_payloads import (
    ExclusionPreviewView,
    MemoryView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
)
from turnlog.services.api.prompt_payloads import AssembledPromptView, WindowView
from turnlog.services.api.segment_payloads import SegmentPage, SegmentView
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintSchemas,
    PinnedTextList,
    QuarantineView,
    StoppedSessionList,
)
from turnlog.services.api.session_payloads import SessionPage, SessionView
from turnlog.services.api.turn_payloads import HistoryView
from turnlog.services.cli.client.http_responses import send_request

if TYPE_CHECKING:
    from turnlog.contract.payload_models import RequestModel
    from turnlog.services.api.requests import (
        AssembleRequest,
        ResolveReferencesRequest,
        WindowPreviewRequest,
    )

TIMEOUT_SECONDS: Final = 60.0
"""Read timeout in seconds; event streams send a keep-alive more often than that."""

LONG_TIMEOUT: Final = httpx.Timeout(TIMEOUT_SECONDS, read=600)
"""Timeout of requests that read a whole log or a whole session."""

QueryParameters = Mapping[str, str | int | bool | None]

ViewT = TypeVar("ViewT")


@dataclass(frozen=True, slots=True)
class ServiceReader:
    """Reads from one service."""

    client: httpx.AsyncClient
    is_live: bool = True
    """Whether new events can arrive; False if the data directory was opened without a service."""

    async def list_sessions(self, query: QueryParameters) -> SessionPage:
        """Return a page of sessions, newest first."""
        return await self.get_view(SessionPage, "/v1/sessions", query)

    async def fetch_session(self, session: str, at: int | None = None) -> SessionView:
        """Return a session from its own log, now or as of sequence `at`."""
        return await self.get_view(SessionView, f"/v1/sessions/{session}", {"at": at})

    async def fetch_history(
        self, session: str, at: int | None = None, phase: str | None = None
    ) -> HistoryView:
        """Return all turns, those up to sequence `at`, or those of a phase."""
        query: QueryParameters = {"at": at, "phase": phase}
        return await self.get_view(HistoryView, f"/v1/sessions/{session}/history", query)

    async def fetch_window(
        self, session: str, call: str | None, at: int | None, clock: str | None = None
    ) -> WindowView:
        """Return the window that a call would see, or would have seen at a sequence."""
        query: QueryParameters = {"call": call, "at": at, "clock": clock}
        return await self.get_view(WindowView, f"/v1/sessions/{session}/window", query)

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
        return await self.get_view(MemoryView, f"/v1/sessions/{session}/memory", query)

    async def preview_exclusion(self, session: str, turn: int) -> ExclusionPreviewView:
        """Return what excluding a turn would undo."""
        path = f"/v1/sessions/{session}/turns/{turn}/exclusion"
        return await self.get_view(ExclusionPreviewView, path)

    async def list_summaries(self, session: str) -> SummariesView:
        """Return the summaries that are in effect in the windows."""
        return await self.get_view(SummariesView, f"/v1/sessions/{session}/summaries")

    async def fetch_references(self, session: str) -> ReferencesView:
        """Return the last reference."""
        return await self.get_view(ReferencesView, f"/v1/sessions/{session}/references")

    async def resolve_reference(
        self, session: str, request: ResolveReferencesRequest
    ) -> ResolvedReferencesView:
        """Return what a reference resolves to."""
        return await self._post_request(
            ResolvedReferencesView, f"/v1/sessions/{session}/references/resolve", request
        )

    async def list_calls(self, session: str) -> CallList:
        """Return all calls with their usage and cost."""
        return await self.get_view(CallList, f"/v1/sessions/{session}/calls")

    async def fetch_growth(self, query: QueryParameters) -> GrowthView:
        """Return the tokens by component of the calls of one session or of all."""
        return await self.get_view(GrowthView, "/v1/growth", query)

    async def fetch_tool_result(self, session: str, call: str, id: str) -> ToolResultView:
        """Return the full result of a tool use."""
        path = f"/v1/sessions/{session}/calls/{call}/tools/{quote(id, safe='')}"
        return await self.get_view(ToolResultView, path)

    async def fetch_usage(self, query: QueryParameters) -> UsageReport:
        """Return what turns used, in all and by group."""
        return await self.get_view(UsageReport, "/v1/usage", query)

    async def list_quotas(self) -> QuotaPage:
        """Return the users who have a limit."""
        return await self.get_view(QuotaPage, "/v1/quotas")

    async def fetch_quota(self, user: str) -> QuotaView:
        """Return what is left of a user's limits."""
        return await self.get_view(QuotaView, build_quota_path(user))

    async def list_overrides(self, query: QueryParameters) -> OverridePage:
        """Return the prompts that a user has in place of those of blueprints."""
        return await self.get_view(OverridePage, OVERRIDES_PATH, query)

    async def fetch_override(
        self, place: tuple[str, str, str], query: QueryParameters
    ) -> OverrideTextView:
        """Return a user's own text; `place` is blueprint, category and user."""
        return await self.get_view(OverrideTextView, build_override_path(*place), query)

    async def list_segments(self, query: QueryParameters) -> SegmentPage:
        """Return a page of segments, ordered by number."""
        return await self.get_view(SegmentPage, "/v1/segments", query)

    async def fetch_segment(self, segment: int) -> SegmentView:
        """Return a segment with all of its versions."""
        return await self.get_view(SegmentView, f"/v1/segments/{segment}")

    async def list_collections(self) -> CollectionList:
        """Return the collections of knowledge."""
        return await self.get_view(CollectionList, "/v1/knowledge/collections")

    async def list_entries(self, collection: str, query: QueryParameters) -> EntryPage:
        """Return a page of the entries of a collection, ordered by id."""
        path = f"/v1/knowledge/collections/{quote(collection, safe='')}"
        return await self.get_view(EntryPage, path, query)

    async def list_stopped_sessions(self) -> StoppedSessionList:
        """Return the sessions whose read models are stopped."""
        return await self.get_view(StoppedSessionList, "/v1/quarantine")

    async def fetch_quarantine(self, session: str) -> QuarantineView:
        """Return the events of a stopped session that wait."""
        return await self.get_view(QuarantineView, f"/v1/quarantine/{session}")

    async def list_pins(self, blueprint: str | None) -> PinnedTextList:
        """Return what open sessions are pinned to."""
        return await self.get_view(PinnedTextList, "/v1/pins", {"blueprint": blueprint})

    async def list_blueprints(self) -> BlueprintList:
        """Return the blueprints that a session can be opened with."""
        return await self.get_view(BlueprintList, "/v1/blueprints")

    async def fetch_blueprint(self, name: str) -> BlueprintSchemas:
        """Return a blueprint with the schemas of its values; raise `Refused` for an unknown one."""
        return await self.get_view(BlueprintSchemas, f"/v1/blueprints/{quote(name, safe='')}")

    async def get_view(
        self,
        view_type: type[ViewT],
        path: str,
        query: QueryParameters | None = None,
        timeout: httpx.Timeout | float = TIMEOUT_SECONDS,
    ) -> ViewT:
        """Return the answer to a query as `view_type`."""
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


def _parse_view(view_type: type[ViewT], path: str, answer: httpx.Response) -> ViewT:
    try:
        return TypeAdapter(view_type).validate_json(answer.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{path}: {first['msg']} at {'.'.join(str(step) for step in first['loc'])}"
        fix = "use the command line of the service's own release"
        raise Refused("other-release", detail, fix=fix) from None
