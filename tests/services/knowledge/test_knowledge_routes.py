"""Knowledge over HTTP: changed through the log, listed from rows, found by the next search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service

CASE = {
    "text": "Call list_ships, then compare the arrival times.",
    "kind": "case",
    "title": "Which ships are late?",
    "tags": ["harbour"],
    "attributes": {"author": "ann"},
    "efficiency": 0.75,
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("knowledge")
    async with start_service(MemoryBackend(), "know", folder, working=False) as running:
        yield running


def build_path(collection: str, entry: str | None = None) -> str:
    path = f"/v1/knowledge/collections/{collection}"
    return path if entry is None else f"{path}/entries/{entry}"


async def put_entry(
    gateway: RunningGateway, collection: str, entry: str, **form: object
) -> dict[str, Any]:
    answer = await gateway.http.put(build_path(collection, entry), json=CASE | form)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def search(gateway: RunningGateway, text: str, **form: object) -> dict[str, Any]:
    answer = await gateway.http.post("/v1/knowledge/search", json={"text": text} | form)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def read_problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    problem = answer.json()
    assert problem["fix"]
    return answer.status_code, problem["code"], problem.get("field")


async def test_acknowledged_entry_is_found_by_the_next_search(gateway: RunningGateway) -> None:
    added = await put_entry(gateway, "found", "late")
    assert (added["added"], added["edited"]) == (1, 0)
    result = await search(gateway, "late ships", collections=["found"])
    (hit,) = result["hits"]
    assert (hit["id"], hit["text"], hit["efficiency"]) == ("late", CASE["text"], 0.75)
    assert hit["confidence"] == hit["vector_score"] > 0.3
    assert hit["lexical_score"] > 0
    assert result["embedder"].startswith("wordllama-")
    assert result["sequence"] == added["sequence"]
    edited = await put_entry(gateway, "found", "late", text="Ask the pilot.")
    assert (edited["added"], edited["edited"]) == (0, 1)
    assert (await search(gateway, "pilot", collections=["found"]))["hits"][0]["revision"] > 1
    assert (await put_entry(gateway, "found", "late", text="Ask the pilot."))["edited"] == 0


async def test_collections_and_entries_are_listed_in_pages(gateway: RunningGateway) -> None:
    entries = [{"id": f"e{n}", "text": f"Text {n}."} for n in range(5)]
    form = {"collection": "pages", "entries": [*entries, CASE | {"id": "z"}]}
    done = (await gateway.http.post("/v1/knowledge/import", json=form)).json()
    assert (done["added"], done["sequence"] > 0) == (6, True)
    again = (await gateway.http.post("/v1/knowledge/import", json=form)).json()
    assert (again["added"], again["edited"], again["removed"]) == (0, 0, 0)
    reached = {"min_sequence": done["sequence"]}
    listed = await gateway.fetch_json("/v1/knowledge/collections", **reached)
    (row,) = (each for each in listed["collections"] if each["collection"] == "pages")
    assert (row["cases"], row["documents"]) == (1, 5)
    ahead = {"min_sequence": done["sequence"] + 1_000}
    for path in ("/v1/knowledge/collections", build_path("pages"), build_path("pages", "z")):
        early = await gateway.http.get(path, params=ahead)
        assert read_problem(early) == (422, "not-there-yet", "min_sequence")
    page = await gateway.fetch_json(build_path("pages"), limit=4)
    assert ([each["id"] for each in page["entries"]], page["next"]) == (
        ["e0", "e1", "e2", "e3"],
        "e3",
    )
    rest = await gateway.fetch_json(build_path("pages"), after="e3")
    assert ([each["id"] for each in rest["entries"]], rest["next"]) == (["e4", "z"], None)
    entry = await gateway.fetch_json(build_path("pages", "z"))
    assert (entry["tags"], entry["attributes"]) == (["harbour"], {"author": "ann"})
    assert entry["edited_by"]


async def test_removed_entry_is_not_listed_or_found(gateway: RunningGateway) -> None:
    await put_entry(gateway, "gone", "one")
    await put_entry(gateway, "gone", "two", text="Another text of ships.")
    removed = (await gateway.http.delete(build_path("gone", "one"))).json()
    assert removed["removed"] == 1
    hits = (await search(gateway, "late ships", collections=["gone"]))["hits"]
    assert [hit["id"] for hit in hits] == ["two"]
    answer = await gateway.http.delete(build_path("gone"))
    assert answer.json()["removed"] == 1
    refused = await gateway.http.post(
        "/v1/knowledge/search", json={"text": "ships", "collections": ["gone"]}
    )
    assert read_problem(refused) == (404, "unknown-collection", "collection")
    path = build_path("gone", "one")
    gone = await gateway.http.get(path, params={"min_sequence": answer.json()["sequence"]})
    assert read_problem(gone) == (404, "unknown-entry", "entry")


async def test_invalid_entry_is_reported_and_nothing_is_imported(gateway: RunningGateway) -> None:
    entries = [{"id": "good", "text": "Good."}, {"id": "bad", "text": " "}]
    form = {"collection": "refused", "entries": entries}
    refused = await gateway.http.post("/v1/knowledge/import", json=form)
    assert read_problem(refused) == (422, "invalid", "entries.1.text")
    assert read_problem(await gateway.http.get(build_path("refused"))) == (
        404,
        "unknown-collection",
        "collection",
    )
    for path, field in ((build_path("refused", "a b"), "entry"), (build_path("A", "a"), None)):
        code = read_problem(await gateway.http.put(path, json=CASE))
        assert code == (422, "invalid", field or "collection")
    bad = await gateway.http.put(build_path("refused", "a"), json=CASE | {"efficiency": 2})
    assert read_problem(bad) == (422, "invalid", "efficiency")
    empty = await gateway.http.post("/v1/knowledge/search", json={"text": " "})
    assert read_problem(empty) == (422, "invalid", "text")


async def test_request_with_a_key_is_applied_once(gateway: RunningGateway) -> None:
    headers = {"Idempotency-Key": "once"}
    path = build_path("keyed", "a")
    first = await gateway.http.put(path, json=CASE, headers=headers)
    removed = (await gateway.http.delete(path)).json()
    again = await gateway.http.put(path, json=CASE, headers=headers)
    assert again.json() == first.json()
    other = await gateway.http.put(path, json=CASE | {"title": "x"}, headers=headers)
    assert other.status_code == 409
    listed = await gateway.http.get(
        build_path("keyed"), params={"min_sequence": removed["sequence"]}
    )
    assert read_problem(listed)[1] == "unknown-collection"
