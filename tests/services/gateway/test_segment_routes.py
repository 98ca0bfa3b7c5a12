"""Segments over HTTP: edited through the log, listed from the rows, all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.projections.blueprint.bounded_json import MAX_JSON_VALUES
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

CUE = {"scope": "npc", "ref": "npc.innkeeper", "content": "He nods.", "type": "npc_cue", "tier": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nats_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A separate server, because every projector reads all libraries of its server."""
    async with await NatsServer.start(
        NatsConfig(data_dir=tmp_path_factory.mktemp("segments"))
    ) as server:
        yield server.url


async def add_segment(stand: RunningGateway, **form: object) -> dict[str, Any]:
    answer = await stand.http.post("/v1/segments", json=form)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def edit_segment(stand: RunningGateway, number: int, **form: object) -> httpx.Response:
    return await stand.http.patch(f"/v1/segments/{number}", json=form)


async def list_segments(
    stand: RunningGateway, sequence: int, **query: object
) -> list[dict[str, Any]]:
    page = await stand.fetch_json("/v1/segments", min_sequence=sequence, **query)
    return list(page["segments"])


def read_problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["fix"]
    return answer.status_code, problem["code"], problem.get("field")


async def test_segment_is_added_edited_and_shown_with_all_its_versions(
    idle: RunningGateway,
) -> None:
    added = await add_segment(idle, **CUE)
    assert added == {"segment": 1, "version": 1, "sequence": 1}
    edited = await edit_segment(idle, 1, content="He waves.", tier=2)
    assert edited.json() == {"segment": 1, "version": 2, "sequence": 2}
    segment = await idle.fetch_json("/v1/segments/1")
    assert (segment["scope"], segment["ref"], segment["active"]) == ("npc", "npc.innkeeper", True)
    assert segment["variants"] == {"a": 2}
    assert [(each["content"], each["tier"]) for each in segment["versions"]] == [
        ("He nods.", 1),
        ("He waves.", 2),
    ]
    (row,) = await list_segments(idle, 2)
    assert (row["content"], row["version"], row["priority"]) == ("He waves.", 2, "normal")


async def test_segment_fields_accept_the_column_names_of_a_segment_table(
    idle: RunningGateway,
) -> None:
    metadata = {"tier": 1, "type": "npc_cue", "priority": "high"}
    row = {"scope": "npc", "ref_id": "npc.innkeeper", "content": "He nods.", "metadata": metadata}
    await add_segment(idle, **row)
    imported = {"segments": [{**row, "id": 9, "version": 6}]}
    answer = await idle.http.post("/v1/segments/import", json=imported)
    assert answer.status_code == 200, answer.text
    edited = await edit_segment(idle, 1, metadata={"priority": "low"})
    assert edited.json()["version"] == 2
    segments = [await idle.fetch_json(f"/v1/segments/{number}") for number in (1, 9)]
    assert [each["ref"] for each in segments] == ["npc.innkeeper"] * 2
    rows = [
        (each["version"], each["tier"], each["type"], each["priority"])
        for segment in segments
        for each in segment["versions"]
    ]
    assert rows == [(1, 1, "npc_cue", "high"), (2, 1, "npc_cue", "low"), (6, 1, "npc_cue", "high")]
    for twice in ({"tier": 1}, {"ref": "npc.other"}):
        refused = await idle.http.post("/v1/segments", json={**row, **twice})
        assert refused.status_code == 422
        assert "twice" in refused.text


async def test_segment_list_is_filtered_and_paged(idle: RunningGateway) -> None:
    for number in range(5):
        await add_segment(idle, scope="core", content=f"Rule {number}.")
    await add_segment(idle, **CUE)
    switched = (await edit_segment(idle, 6, active=False)).json()
    sequence = switched["sequence"]
    assert [row["id"] for row in await list_segments(idle, sequence, scope="npc")] == [6]
    assert [row["id"] for row in await list_segments(idle, sequence, active=False)] == [6]
    assert [row["id"] for row in await list_segments(idle, sequence, q="rule 3")] == [4]
    page = await idle.fetch_json("/v1/segments", limit=2)
    assert ([row["id"] for row in page["segments"]], page["next"]) == ([1, 2], 2)
    page = await idle.fetch_json("/v1/segments", limit=4, after=page["next"])
    assert ([row["id"] for row in page["segments"]], page["next"]) == ([3, 4, 5, 6], None)


async def test_segment_request_with_a_key_is_executed_once_with_one_response(
    idle: RunningGateway,
) -> None:
    key = {"Idempotency-Key": "k"}
    first = await idle.http.post("/v1/segments", json=CUE, headers=key)
    await edit_segment(idle, 1, content="Later.")
    again = await idle.http.post("/v1/segments", json=CUE, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["ETag"] == first.headers["ETag"]
    other = await idle.http.post("/v1/segments", json=CUE | {"tier": 3}, headers=key)
    assert read_problem(other) == (409, "key-reused", "Idempotency-Key")


async def test_segment_import_is_atomic_and_idempotent(idle: RunningGateway) -> None:
    rows = [CUE, {"scope": "core", "content": "Be kind.", "id": 40}]
    answer = await idle.http.post("/v1/segments/import", json={"segments": rows})
    assert answer.json() == {"added": [40, 41], "edited": [], "rows": 2, "sequence": 1}
    again = await idle.http.post("/v1/segments/import", json={"segments": rows})
    assert again.json() == {"added": [], "edited": [], "rows": 2, "sequence": 1}
    bad = [*rows, {"scope": "core", "content": "x", "id": 7}, CUE | {"priority": "urgent"}]
    refused = await idle.http.post("/v1/segments/import", json={"segments": bad})
    assert read_problem(refused) == (422, "invalid", "segments.3.priority")
    taken = await idle.http.post("/v1/segments/import", json={"segments": [CUE | {"id": 40}]})
    assert read_problem(taken) == (409, "segment-taken", "segments.0.id")
    assert [row["id"] for row in await list_segments(idle, 1)] == [40, 41]


async def test_segment_import_has_a_larger_but_finite_size_limit(
    idle: RunningGateway,
) -> None:
    rows = [{"scope": "core", "content": f"{number} {'x' * 900}"} for number in range(1_200)]
    answer = await idle.http.post("/v1/segments/import", json={"segments": rows})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["added"]) == 1_200
    many = b'{"segments":[' + b"[1]," * MAX_JSON_VALUES + b"1]}"
    headers = {"Content-Type": "application/json"}
    refused = await idle.http.post("/v1/segments/import", content=many, headers=headers)
    assert read_problem(refused) == (422, "too-many-values", "body")
    large = await idle.http.post("/v1/segments", json={"scope": "core", "content": "x" * 300_000})
    assert read_problem(large) == (413, "too-large", "body")
    async with idle.start_another_gateway(import_limit=2_000) as narrow:
        refused = await narrow.http.post("/v1/segments/import", json={"segments": rows})
    assert read_problem(refused) == (413, "too-large", "body")


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"scope": "core"}, (422, "invalid", "content")),
        ({"scope": "core", "content": " "}, (422, "invalid", "content")),
        ({"scope": "Core", "content": "x"}, (422, "invalid", "scope")),
        ({"scope": "core", "content": "x", "ref": "a b"}, (422, "invalid", "ref")),
        ({"scope": "core", "content": "x", "ref": "a.*.>"}, (422, "invalid", "ref")),
        ({"scope": "core", "content": "x", "locale": "english!"}, (422, "invalid", "locale")),
        ({"scope": "core", "content": "x", "tier": -1}, (422, "invalid", "tier")),
        ({"scope": "core", "content": "x", "tier": "1"}, (422, "invalid", "tier")),
        ({"scope": "core", "content": "x", "tier": 10**20}, (422, "bad-number", "tier")),
        ({"scope": "core", "content": "x", "priority": "max"}, (422, "invalid", "priority")),
        ({"scope": "core", "content": "x", "variant": ""}, (422, "invalid", "variant")),
        ({"scope": "core", "content": "a\0b"}, (422, "bad-text", "content")),
        ({"scope": "core", "content": "x" * 100_001}, (422, "invalid", "content")),
        ({"scope": "core", "content": "x", "id": 3}, (422, "invalid", "id")),
        ({"scope": "core", "content": "x", "api_key": "k"}, (422, "invalid", "api_key")),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_invalid_segment_is_refused_with_its_field_and_not_stored(
    bare: RunningGateway, form: dict[str, object], problem: tuple[int, str, str]
) -> None:
    assert read_problem(await bare.http.post("/v1/segments", json=form)) == problem
    page = await bare.fetch_json("/v1/segments")
    assert page["segments"] == []


@pytest.mark.parametrize(
    ("method", "path", "problem"),
    [
        ("GET", "/v1/segments/9", (404, "unknown-segment", "segment")),
        ("PATCH", "/v1/segments/9", (404, "unknown-segment", "segment")),
        ("GET", "/v1/segments/zero", (422, "invalid", "segment")),
        ("GET", "/v1/segments/0", (422, "invalid", "segment")),
        ("GET", "/v1/segments?min_sequence=9", (422, "not-there-yet", "min_sequence")),
        ("GET", "/v1/segments?colour=red", (422, "invalid", "colour")),
        ("GET", "/v1/segments?limit=0", (422, "invalid", "limit")),
        ("GET", "/v1/segments?q=%00", (422, "bad-text", "q")),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_missing_segment_or_invalid_query_is_refused_with_its_field(
    bare: RunningGateway, method: str, path: str, problem: tuple[int, str, str]
) -> None:
    body = {"json": {"content": "x"}} if method == "PATCH" else {}
    assert read_problem(await bare.http.request(method, path, **body)) == problem  # type: ignore[arg-type]


async def test_concurrent_edits_through_two_gateways_are_all_recorded(idle: RunningGateway) -> None:
    async with idle.start_another_gateway() as other:
        await add_segment(idle, **CUE)
        edits = (
            edit_segment(stand, 1, content=f"{name} {number}")
            for name, stand in (("one", idle), ("two", other))
            for number in range(10)
        )
        answers = await asyncio.gather(*edits)
        assert {answer.status_code for answer in answers} == {200}
        assert sorted(answer.json()["version"] for answer in answers) == list(range(2, 22))
        views = [await stand.fetch_json("/v1/segments/1") for stand in (idle, other)]
    assert views[0] == views[1]
    contents = {each["content"] for each in views[0]["versions"]}
    assert len(contents) == 21


async def test_one_of_two_edits_of_the_same_version_is_a_conflict(idle: RunningGateway) -> None:
    async with idle.start_another_gateway() as other:
        await add_segment(idle, **CUE)
        answers = await asyncio.gather(
            *(edit_segment(stand, 1, content=stand.address, version=1) for stand in (idle, other))
        )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    (refused,) = (answer for answer in answers if answer.status_code == 409)
    assert read_problem(refused) == (409, "segment-moved", "version")


async def test_segments_of_another_tenant_are_not_visible(idle: RunningGateway) -> None:
    await add_segment(idle, **CUE)
    async with idle.start_another_gateway(tenant=f"{idle.tenant}-other") as other:
        assert (await other.http.get("/v1/segments/1")).status_code == 404
        assert (await other.fetch_json("/v1/segments"))["segments"] == []
        assert (await add_segment(other, **CUE))["segment"] == 1
