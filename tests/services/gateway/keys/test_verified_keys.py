"""The history of the keys is verified and witnessed for the installation, and for no tenant."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.keys.key_gateway import ROOT_KEY, create_key, send, start_key_gateway
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("P17")]


@pytest_asyncio.fixture(loop_scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401
    """A gateway on a log that one test may damage."""
    folder = tmp_path_factory.mktemp("verified")
    async with start_service(MemoryBackend(), "verified", folder, working=False) as running:
        yield running


async def create_keys(gateway: RunningGateway, *tenants: str) -> list[str]:
    """Create an auditor's key for each tenant, all in one history."""
    return [
        await create_key(gateway, f"k-{uuid.uuid4().hex[:8]}", "auditor", tenant=tenant)
        for tenant in tenants
    ]


async def verify(
    gateway: RunningGateway,
    key: str,
    checkpoint: Any = None,  # noqa: ANN401
) -> list[Any]:
    """Verify the log with a key; return the lines of the answer."""
    method = "GET" if checkpoint is None else "POST"
    answer = await send(gateway, key, method, "/v1/verify", json=checkpoint)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def list_findings(lines: list[Any]) -> list[tuple[str, str, str]]:
    """List stream, history and check of each finding."""
    found = (line for line in lines if line["kind"] == "finding")
    return [(line["log"], line["session"], line["finding"]["check"]) for line in found]


def get_library(gateway: RunningGateway) -> MemoryLog:
    assert isinstance(gateway.backend, MemoryBackend)
    return gateway.backend.library


def find_key_event(log: MemoryLog, number: int) -> int:
    """Return the index of an event of the keys in a log."""
    places = [
        index
        for index, raw in enumerate(log.stored)
        if raw is not None and raw.subject.startswith("library._installation.access.")
    ]
    return places[number]


def get_event(log: MemoryLog, index: int) -> RawEvent:
    found = log.stored[index]
    assert found is not None
    return found


async def test_altered_key_event_is_found_by_the_installation_and_tells_no_tenant(
    own: RunningGateway,
) -> None:
    async with start_key_gateway(own) as gateway:
        (desk,) = await create_keys(gateway, "desk")
        await create_keys(gateway, "other", "other")
        sound = (await verify(gateway, ROOT_KEY))[-1]
        assert (sound["verified"], sound["installation_events"] >= 3) == (True, True)
        await verify(gateway, desk)
        log = get_library(gateway)
        place = find_key_event(log, 1)
        whole = get_event(log, place)
        log.stored[place] = replace(whole, stored=whole.stored.replace(b"auditor", b"caller1"))
        assert get_event(log, place) != whole
        *found, summary = await verify(gateway, ROOT_KEY)
        assert ("installation", "access", "chain") in list_findings(found)
        assert (summary["verified"], summary["integrity"]) == (False, "broken")
        refused = await send(gateway, ROOT_KEY, "GET", "/v1/checkpoint")
        assert refused.status_code >= 400
        log.stored[place] = whole
        *found, summary = await verify(gateway, desk)
        assert (list_findings(found), summary["installation_events"]) == ([], None)
        log.stored[place] = replace(whole, stored=whole.stored.replace(b"auditor", b"caller1"))
        *found, summary = await verify(gateway, desk)
        assert (list_findings(found), summary["verified"]) == ([], True)
        log.stored[place] = whole


async def test_checkpoint_of_the_installation_shows_that_the_history_of_keys_was_cut(
    own: RunningGateway,
) -> None:
    async with start_key_gateway(own) as gateway:
        (desk,) = await create_keys(gateway, "desk-2")
        checkpoint = (await send(gateway, ROOT_KEY, "GET", "/v1/checkpoint")).json()
        assert [*checkpoint["installation"]] == ["access"]
        (*_, summary) = await verify(gateway, ROOT_KEY, checkpoint)
        assert (summary["verified"], summary["completeness"]) == (True, "witnessed")
        log = get_library(gateway)
        # What was stored last is gone, and with it, for one, that a key was revoked.
        cut, gone = find_key_event(log, -1), list[RawEvent | None]()
        gone = log.stored[cut:]
        del log.stored[cut:]
        *found, summary = await verify(gateway, ROOT_KEY, checkpoint)
        assert ("installation", "access", "noted") in list_findings(found)
        assert summary["completeness"] == "incomplete"
        refused = await send(gateway, ROOT_KEY, "POST", "/v1/checkpoint", json=checkpoint)
        assert (refused.status_code, refused.json()["code"]) == (500, "corrupt")
        assert "installation access" in refused.text
        log.stored.extend(gone)
        continued = await send(gateway, ROOT_KEY, "POST", "/v1/checkpoint", json=checkpoint)
        assert [*continued.json()["checkpoint"]["installation"]] == ["access"]
        plain = (await send(gateway, desk, "GET", "/v1/checkpoint")).json()
        assert "installation" not in plain
        foreign = plain | {"installation": checkpoint["installation"]}
        for path in ("/v1/verify", "/v1/checkpoint"):
            refused = await send(gateway, desk, "POST", path, json=foreign)
            assert (refused.status_code, refused.json()["code"]) == (403, "not-permitted")
