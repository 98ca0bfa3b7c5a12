"""Looks over HTTP: each leaves one event, before its answer, or there is no answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.services.gateway.gateway_service import (
    NO_TRACING,
    MemoryBackend,
    RunningGateway,
    start_service,
)
from turnlog.events.codec import EventBatch
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import AppendOutcome, LogUnreachable, RawEvent
from turnlog.events.subjects import READ_HISTORY
from turnlog.services.gateway.app import build_app
from turnlog.services.gateway.dependencies import build_dependencies
from turnlog.services.identity.principals import Principal
from turnlog.services.platform.clock import Clock

Row = dict[str, Any]


@dataclass(frozen=True)
class SignedIn:
    """ASGI middleware that lets a principal in."""

    app: ASGIApp
    principal: Principal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["principal"] = self.principal
        await self.app(scope, receive, send)


@asynccontextmanager
async def sign_in(
    stand: RunningGateway, *, clock: Clock | None = None, **settings: object
) -> AsyncGenerator[httpx.AsyncClient]:
    """Open a client of a gateway on the same log, for an auditor who has a key."""
    principal = Principal(
        tenant=stand.tenant, actor="user:ann", sign_in="key", user="ann", key_id="k7Qm"
    )
    changed = stand.settings.model_copy(update=settings)
    dependencies = build_dependencies(changed, stand.parts, NO_TRACING)
    if clock is not None:
        dependencies.use_cases.reads.reads.clock = clock
    app = build_app(dependencies)
    # The innermost, so that nothing else says who it is.
    app.user_middleware.append(Middleware(SignedIn, principal=principal))
    transport = httpx.ASGITransport(app, client=("10.0.0.7", 1234), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http


async def list_reads(http: httpx.AsyncClient, **query: Any) -> list[Row]:  # noqa: ANN401
    answer = await http.get("/v1/reads", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["reads"])


async def run_session(stand: RunningGateway) -> str:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello")
    await stand.submit_and_answer(session, "And now?", "Still here")
    return session


LOOKS: Mapping[str, tuple[str, str, Row | None, Row]] = {
    "prompt": ("GET", "/v1/sessions/S/calls/2.1/prompt", None, {"call": "2.1"}),
    "assembly": ("GET", "/v1/sessions/S/calls/2.1/assembly", None, {"call": "2.1"}),
    "window": ("GET", "/v1/sessions/S/window", None, {}),
    "preview": ("POST", "/v1/sessions/S/window", {"text": "Hm"}, {"what": "window"}),
    "why": ("GET", "/v1/sessions/S/calls/1.1/why", None, {"call": "1.1"}),
    "why of a turn": ("GET", "/v1/sessions/S/turns/2/why", None, {"what": "why", "turn": 2}),
    "diff": (
        *("GET", "/v1/sessions/S/calls/1.1/diff/2.1", None),
        {"call": "1.1", "other_call": "2.1"},
    ),
    "diff of two sessions": (
        *("GET", "/v1/sessions/S/calls/1.1/diff/1.1?other=S2", None),
        {"what": "diff", "call": "1.1", "other_call": "1.1", "other_session": "S2"},
    ),
    "diff of one session": (
        *("GET", "/v1/sessions/S/calls/1.1/diff/2.1?other=S", None),
        {"what": "diff", "call": "1.1", "other_call": "2.1"},
    ),
    "what-if": ("POST", "/v1/what-if", {"sessions": ["S"], "budget": 9000}, {}),
    "withheld": ("GET", "/v1/sessions/S/events?stored=true", None, {}),
    "withheld of all": ("GET", "/v1/events?stored=1", None, {"what": "withheld", "session": None}),
    "bundle": ("GET", "/v1/sessions/S/export?format=bundle", None, {}),
    "proof": ("GET", "/v1/sessions/S/calls/2.1/proof", None, {"call": "2.1"}),
    "export": ("GET", "/v1/sessions/S/export", None, {}),
    "stored export": ("GET", "/v1/sessions/S/export?stored=true", None, {"what": "withheld"}),
    "assembly of nothing": (
        *("POST", "/v1/assemble", {"blueprint": "clerk", "attributes": {"desk": "d"}, "text": "x"}),
        {"what": "assembly", "session": None},
    ),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_every_look_leaves_one_event_that_names_it(stand: RunningGateway, name: str) -> None:
    session, other = await run_session(stand), await run_session(stand)

    def name_sessions(value: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        text = json.dumps(value).replace('"S2"', f'"{other}"').replace('"S"', f'"{session}"')
        return json.loads(
            text.replace("/S/", f"/{session}/")
            .replace("=S2", f"={other}")
            .replace("=S", f"={session}")
        )

    method, path, body, expected = name_sessions(LOOKS[name])
    async with sign_in(stand) as http:
        answer = await http.request(
            method, path, json=body, headers={"Turnlog-Reason": "complaint 4711"}
        )
        assert answer.status_code == 200, answer.text
        (found,) = await list_reads(http)
    assert found.pop("at") > "2026"
    assert found.pop("position") > 0
    assert found == {
        "actor": "user:ann",
        "what": name,
        "session": session,
        "call": None,
        "turn": None,
        "other_session": None,
        "other_call": None,
        "sign_in": "key",
        "key": "k7Qm",
        "address": "10.0.0.7",
        "reason": "complaint 4711",
        **expected,
    }


async def test_what_is_no_look_leaves_nothing(stand: RunningGateway) -> None:
    session = await run_session(stand)
    async with sign_in(stand) as http:
        for path, status in (
            (f"/v1/sessions/{session}/history", 200),
            (f"/v1/sessions/{session}/events", 200),
            ("/v1/events?stored=false", 200),
            ("/v1/sessions/none/calls/1.1/prompt", 404),
            (f"/v1/sessions/{session}/calls/9.9/prompt", 404),
            (f"/v1/sessions/{session}/calls/1.1/prompt?x=1", 422),
            ("/v1/sessions/none/export?format=bundle", 404),
        ):
            assert (await http.get(path)).status_code == status, path
        assert await list_reads(http) == []


async def test_gateway_that_asks_nobody_records_nothing(stand: RunningGateway) -> None:
    session = await run_session(stand)
    assert (await stand.http.get(f"/v1/sessions/{session}/calls/1.1/prompt")).is_success
    assert await list_reads(stand.http) == []
    async with sign_in(stand) as http:
        assert await list_reads(http) == []


async def test_looking_at_the_log_is_a_look(stand: RunningGateway) -> None:
    async with sign_in(stand) as http:
        assert await list_reads(http, what="prompt", limit=1) == []
        (found,) = await list_reads(http)
    assert (found["what"], found["session"], found["reason"]) == ("reads", None, None)


class UnreachableLog(MemoryLog):
    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        del batch
        return LogUnreachable("it is gone", ambiguous=True)


@pytest.mark.parametrize(
    "path",
    [
        *("calls/1.1/prompt", "calls/1.1/why", "calls/1.1/proof"),
        *("events?stored=true", "export?format=bundle"),
    ],
)
async def test_look_that_cannot_be_recorded_has_no_answer(stand: RunningGateway, path: str) -> None:
    session = await run_session(stand)
    parts = replace(stand.parts, reads=UnreachableLog(kind=READ_HISTORY))
    gone = replace_parts(stand, parts)
    async with sign_in(gone) as http:
        for accepted in ("*/*", "text/event-stream"):
            answer = await http.get(f"/v1/sessions/{session}/{path}", headers={"accept": accepted})
            assert answer.status_code == 503, answer.text
            assert answer.json()["code"] == "unavailable"
            assert "the log of reads" in answer.json()["detail"]
            assert "Hello" not in answer.text
        history = await http.get(f"/v1/sessions/{session}/history")
        assert history.status_code == 200, "what needs no record goes on"


def replace_parts(stand: RunningGateway, parts: Any) -> RunningGateway:  # noqa: ANN401
    fields = {name: getattr(stand, name) for name in RunningGateway.__dataclass_fields__}
    return RunningGateway(**{**fields, "parts": parts})


async def test_concurrent_looks_of_two_processes_are_all_recorded(stand: RunningGateway) -> None:
    session = await run_session(stand)
    path = f"/v1/sessions/{session}/calls/1.1/prompt"
    async with sign_in(stand) as one, sign_in(stand) as two:
        reasons = [f"look {number}" for number in range(32)]
        answers = await asyncio.gather(
            *(
                (one, two)[number % 2].get(path, headers={"Turnlog-Reason": reason})
                for number, reason in enumerate(reasons)
            )
        )
        assert {answer.status_code for answer in answers} == {200}
        found = await list_reads(one)
    assert sorted(row["reason"] for row in found) == sorted(reasons)
    # Pages have each of them once, whatever their size.
    async with sign_in(stand) as http:
        listed, before = list[str](), None
        while True:
            query: Row = {"what": "prompt", "limit": 5} | ({"before": before} if before else {})
            page = (await http.get("/v1/reads", params=query)).json()
            listed += [row["reason"] for row in page["reads"]]
            before = page["next"]
            if before is None:
                break
    assert sorted(listed) == sorted(reasons)


def move_time(at: datetime) -> datetime:
    return at


async def test_looks_are_selected_by_who_what_and_when(stand: RunningGateway) -> None:
    session, other = await run_session(stand), await run_session(stand)
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    days = [now - timedelta(days=back) for back in (40, 2, 1, 0)]
    for at in days:
        async with sign_in(stand, clock=partial(move_time, at)) as http:
            for looked in (session, other):
                assert (await http.get(f"/v1/sessions/{looked}/calls/1.1/why")).is_success
    async with sign_in(stand, clock=partial(move_time, now)) as http:

        async def count(**query: Any) -> int:  # noqa: ANN401
            return len([row for row in await list_reads(http, **query) if row["what"] == "why"])

        assert await count() == 6, "those of 31 days"
        assert await count(since="2026-01-01T00:00:00Z") == 8
        assert await count(session=session) == 3
        assert await count(what="prompt") == 0
        assert await count(actor="user:ann") == 6
        assert await count(actor="user:eve") == 0
        assert await count(until="2026-11-28T12:00:00Z") == 2
        assert await count(since="2026-11-28T12:00:00Z") == 4
        assert await count(since="2026-11-28T14:00:00+02:00", until="2026-11-29T00:00:00Z") == 2
        assert await count(until="0001-01-02T00:00:00Z") == 0
        times = [row["at"] for row in await list_reads(http, since="2026-01-01T00:00:00Z")]
        assert times == sorted(times, reverse=True)


async def test_look_recorded_by_a_clock_that_is_ahead_is_listed(stand: RunningGateway) -> None:
    evening = datetime(2026, 11, 29, 23, 59, 59, tzinfo=UTC)
    async with sign_in(stand, clock=partial(move_time, evening + timedelta(seconds=2))) as http:
        assert await list_reads(http) == []
    async with sign_in(stand, clock=partial(move_time, evening)) as http:
        assert len(await list_reads(http)) == 1


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("before", ["x", "2026-13-01", "2026-11-29.0", "2026-11-29.x", "29.1"])
async def test_place_that_is_none_is_refused(bare: RunningGateway, before: str) -> None:
    answer = await bare.http.get("/v1/reads", params={"before": before})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-cursor")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "reason", [b"", b"x" * 501, b"\xff", "a\u2028b".encode(), "\u202e".encode()]
)
async def test_reason_that_is_none_is_refused(bare: RunningGateway, reason: bytes) -> None:
    answer = await bare.http.get("/v1/reads", headers=[(b"turnlog-reason", reason)])
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-reason")


async def test_reason_may_be_in_any_language(stand: RunningGateway) -> None:
    reason = "Beschwerde 4711: falsche Auskunft, \u5ba2\u8bc9"
    async with sign_in(stand) as http:
        headers = [(b"Turnlog-Reason", reason.encode())]
        assert (await http.get("/v1/reads", headers=headers)).is_success
        assert (await list_reads(http))[0]["reason"] == reason


async def test_reason_can_be_required(stand: RunningGateway) -> None:
    session = await run_session(stand)
    async with sign_in(stand, require_reason="on") as http:
        for path in (f"sessions/{session}/calls/1.1/prompt", "events?stored=true", "reads"):
            answer = await http.get(f"/v1/{path}")
            assert (answer.status_code, answer.json()["code"]) == (400, "reason-missing")
            assert (await http.get(f"/v1/{path}", headers={"Turnlog-Reason": "x"})).is_success
        assert (await http.get(f"/v1/sessions/{session}/events")).is_success
    async with sign_in(stand) as http:
        assert [row["reason"] for row in await list_reads(http)] == ["x"] * 3


@pytest.mark.tampers
async def test_verify_finds_a_look_that_was_altered(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with start_service(backend, "acme", tmp_path) as stand:
        session = await run_session(stand)
        async with sign_in(stand) as http:
            for reason in ("one", "two", "three"):
                path = f"/v1/sessions/{session}/calls/1.1/why"
                await http.get(path, headers={"Turnlog-Reason": reason})
        assert (await verify(stand))[-1]["verified"] is True
        checkpoint = await stand.fetch_json("/v1/checkpoint")
        (day,) = checkpoint["reads"]
        assert checkpoint["reads"][day]["sequence"] == 3
        raw = backend.reads.stored[1]
        assert raw is not None
        altered = raw.stored.replace(b'"reason":"two"', b'"reason":"tea"')
        backend.reads.stored[1] = RawEvent(raw.subject, raw.stream_sequence, altered)
        found, summary = [line for line in await verify(stand) if line["kind"] != "progress"]
        assert (found["log"], found["session"], found["finding"]["sequence"]) == ("reads", day, 2)
        assert summary["verified"] is False


async def verify(stand: RunningGateway) -> list[Row]:
    answer = await stand.http.get("/v1/verify")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]
