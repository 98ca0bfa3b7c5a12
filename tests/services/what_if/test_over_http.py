"""What-if over HTTP and from the command line: many sessions, no writes, no model calls."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import func, select, true

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.what_if.two_versions import (
    CONVERSATION,
    FIRST_VERSION,
    SECOND_VERSION,
    list_recorded_prompts,
    run_conversation,
    write_blueprint_folder,
)
from tests.support.processes.service_connection import connect_service
from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.contract.prompt_requests import WhatIfRequest
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import (
    wait_for_sequence,
    wait_until_folded,
)
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_INDEX,
    METADATA,
    PROJECTIONS,
)
from turnlog.projections.store.write.segment_projection import SEGMENTS_PROJECTION
from turnlog.services.cli.what_if.what_if_comparison import print_what_if, read_blueprint_folder

MANY = int(os.environ.get("SESSIONS", "20"))
"""The number of recorded sessions; `make suppose` runs a thousand."""

PERSONA = "You are a clerk, and brief."


@dataclass(frozen=True, slots=True, repr=False)
class RecordedSessions:
    """A service with many recorded sessions and its blueprint folder."""

    stand: RunningGateway
    house: SessionHarness
    first: Path
    second: Path

    async def request_what_if(self, **form: object) -> list[dict[str, Any]]:
        """Request a what-if and return its lines."""
        answer = await self.stand.http.post("/v1/what-if", json=form)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    async def measure_storage(self) -> tuple[int, int, str]:
        """Measure the log, the blobs and the rows."""
        digest = hashlib.sha256()
        async with self.stand.store.open_reader() as connection:
            for table in METADATA.sorted_tables:
                for row in await connection.execute(select(table)):
                    digest.update(repr(row).encode())
        return (
            await self.house.log.get_last_stream_sequence(TENANT),
            len(self.house.blobs.blobs),
            digest.hexdigest(),
        )


async def count_prepared_libraries(store: ReadModelStore) -> int:
    """Count the rows that the segments' and the knowledge's projectors write when they start.

    A service answers before it has them, so they may appear between two measurements.
    """
    segments = select(func.count()).where(PROJECTIONS.c.name == SEGMENTS_PROJECTION)
    knowledge = select(func.count()).where(KNOWLEDGE_INDEX.c.complete == true())
    async with store.open_reader() as connection:
        counts = [await connection.scalar(each) or 0 for each in (segments, knowledge)]
    return sum(counts)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def recorded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RecordedSessions]:
    root, backend = tmp_path_factory.mktemp("recorded"), MemoryBackend()
    first = write_blueprint_folder(root / "first", FIRST_VERSION, persona_md=PERSONA)
    second = write_blueprint_folder(root / "second", SECOND_VERSION, persona_md=PERSONA)
    house = SessionHarness(log=backend.log, blobs=backend.blobs, tokens=backend.tokens)
    for number in range(MANY):
        await run_conversation(
            house, first, f"s-{number}", CONVERSATION[: 1 + number % len(CONVERSATION)]
        )
    last = house.list_events(f"s-{MANY - 1}")[-1]
    async with start_service(backend, TENANT, root, working=False) as stand:
        place = (TENANT, last.session, last.sequence)
        assert await wait_until_folded(stand.store, stand.projection_signal, *place, within=300)
        count = partial(count_prepared_libraries, stand.store)
        assert await wait_for_sequence(stand.projection_signal, count, 2, within=60)
        yield RecordedSessions(stand, house, first / "clerk", second / "clerk")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("change", ["blueprint", "budget", "model"])
async def test_what_if_over_many_sessions_calls_no_model_and_writes_no_events(
    recorded: RecordedSessions, change: str
) -> None:
    folder = read_blueprint_folder(recorded.second).model_dump(mode="json")
    forms = {"blueprint": folder, "budget": 60, "model": "openai/gpt-4o"}
    lines = await recorded.request_what_if(**{change: forms[change]})
    before, requests = await recorded.measure_storage(), len(recorded.house.model.requests)
    assert await recorded.request_what_if(**{change: forms[change]}) == lines
    begun, *sessions, ended = lines
    assert [line["line"] for line in lines] == ["begun", *["session"] * MANY, "ended"]
    assert (begun["sessions"], begun["behind"], ended["sessions"]) == (MANY, 0, MANY)
    assert ended["calls"] == sum(each["calls"] for each in sessions) == requests
    assert ended["again"] == requests
    assert ended["after"]["tokens"] == sum(each["after"]["tokens"] for each in sessions)
    assert await recorded.measure_storage() == before
    assert len(recorded.house.model.requests) == requests
    assert recorded.stand.model.requests == []


async def test_what_if_figures_equal_those_of_a_real_run(
    recorded: RecordedSessions,
) -> None:
    await run_conversation(recorded.house, recorded.second.parent, "really", CONVERSATION)
    folder = read_blueprint_folder(recorded.second).model_dump(mode="json")
    _, session, _ = await recorded.request_what_if(sessions=["s-7"], blueprint=folder)
    recorded_prompts = list_recorded_prompts(recorded.house, "really")
    assert session["after"]["tokens"] == sum(each.tokens for each in recorded_prompts)
    assert session["after"]["prefix"] == sum(each.prefix or 0 for each in recorded_prompts)
    digests = {each["call"]: each["after"]["digest"] for each in session["worst"]}
    assert digests == {f"{turn}.1": each.digest for turn, each in enumerate(recorded_prompts, 1)}


async def test_report_lists_the_worst_session_first_and_the_excess_over_budget(
    recorded: RecordedSessions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    form = WhatIfRequest(sessions=["s-0", "s-6", "s-3", "nobody"], budget=12)
    page = tmp_path / "report.html"
    service = connect_service(recorded.stand.http)
    await print_what_if(service=service, form=form, query={}, output="json", html=page)
    printed = capsys.readouterr().out  # The gateway of this process may log requests before it.
    results = json.loads(printed[printed.index("{") :])
    assert [each["session"] for each in results["sessions"]] == ["s-6", "s-3", "s-0"]
    assert [(each["session"], each["code"]) for each in results["untold"]] == [
        ("nobody", "unknown-session")
    ]
    refused = results["sessions"][0]["worst"][0]["refused"]
    assert (refused["code"], refused["limit"]) == ("over-budget", 12)
    assert f"{12 + refused['over']} tokens do not fit 12" in refused["detail"]
    assert [each["layer"] for each in refused["kept"]] == ["persona", "input"]
    assert "not for behaviour" in results["exact"]
    report = page.read_text()
    assert report.index("s-6") < report.index("s-3") < report.index("s-0")
    assert "not for behaviour" in report
    assert "<script" not in report
    assert "http" not in report


async def test_table_output_shows_truncations_and_the_limits_of_the_figures(
    recorded: RecordedSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    form = WhatIfRequest(sessions=["s-7"], budget=60)
    service = connect_service(recorded.stand.http)
    await print_what_if(service=service, form=form, query={}, output="table", html=None)
    output = capsys.readouterr().out
    assert "what if a budget of 60 tokens" in output
    assert "drop_oldest_pairs" in output
    assert "not for behaviour" in output


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({}, "invalid"),
        ({"budget": 0}, "invalid"),
        ({"blueprint": {"blueprint": "clerk", "files": {}}}, "faulty-blueprint"),
        ({"blueprint": {"blueprint": "clerk", "files": {"blueprint.yaml": "\0"}}}, "bad-text"),
        ({"blueprint": {"blueprint": "other", "files": {"blueprint.yaml": FIRST_VERSION}}},
         "faulty-blueprint"),
        ({"budget": 1, "sessions": []}, "invalid"),
    ],
)  # fmt: skip
async def test_what_if_without_a_valid_change_is_refused(
    recorded: RecordedSessions, form: dict[str, Any], code: str
) -> None:
    answer = await recorded.stand.http.post("/v1/what-if", json=form)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.tampers
async def test_session_of_a_later_release_is_reported_and_does_not_stop_others(
    tmp_path: Path,
) -> None:
    backend = MemoryBackend()
    first = write_blueprint_folder(tmp_path / "first", FIRST_VERSION, persona_md=PERSONA)
    house = SessionHarness(log=backend.log, blobs=backend.blobs, tokens=backend.tokens)
    for session in ("later", "told"):
        await run_conversation(house, first, session, CONVERSATION[:1])
    place = backend.log.sessions[TENANT, "later"][0]
    raw = backend.log.stored[place - 1]
    assert raw is not None
    later = raw.stored.replace(b"session-opened.v1", b"session-opened.v9")
    backend.log.stored[place - 1] = RawEvent(raw.subject, place, later)
    async with start_service(backend, TENANT, tmp_path, working=False) as stand:
        form = {"sessions": ["later", "told"], "budget": 60}
        answer = await stand.http.post("/v1/what-if", json=form)
    _, *lines, ended = (json.loads(line) for line in answer.text.splitlines())
    assert [(line["line"], line["session"]) for line in lines] == [
        ("untold", "later"),
        ("session", "told"),
    ]
    assert (lines[0]["code"], ended["sessions"], ended["untold"]) == ("corrupt", 1, 1)
