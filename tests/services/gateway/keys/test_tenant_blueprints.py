"""Blueprints of one tenant: nobody else finds them, by any route."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.services.gateway.gateway_service import RunningGateway, build_worker, run_worker
from tests.services.gateway.keys.key_gateway import create_key, send, start_key_gateway
from tests.support.sessions.flat_pricing import create_flat_pricing
from turnlog.events.async_tasks import run_tasks

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLUEPRINT = """
blueprint: {name}
version: {version}
summary: Of {owner}.
attributes: {{}}
layers:
  persona: {{file: persona.md, keep: always}}
calls:
  reply: {{messages: [{{system: [persona]}}, {{user: [input]}}]}}
profiles:
  chat: {{default: true, call: reply}}
"""


def write_blueprint(place: Path, name: str, owner: str, version: int = 1) -> None:
    """Write a blueprint whose persona says whose it is."""
    folder = place / name
    folder.mkdir(parents=True)
    text = BLUEPRINT.format(name=name, owner=owner, version=version)
    (folder / "blueprint.yaml").write_text(text)
    (folder / "persona.md").write_text(f"You work for {owner}.")


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A folder with a blueprint for all, which a tenant has one of its own of, and one secret."""
    write_blueprint(tmp_path, "desk", "everybody")
    write_blueprint(tmp_path / "tenants/travel", "desk", "the travel desk", version=2)
    write_blueprint(tmp_path / "tenants/travel", "ferries", "the travel desk")
    return tmp_path


async def test_a_blueprint_of_a_tenant_exists_for_nobody_else(
    bare: RunningGateway, places: Path
) -> None:
    async with start_key_gateway(bare, blueprints=(places,)) as gateway:
        roles = ("caller", "operator", "auditor")
        travel, review = [
            await create_key(gateway, "all", *roles, tenant=each) for each in ("travel", "review")
        ]
        listed = await send(gateway, review, "GET", "/v1/blueprints")
        names = [each["blueprint"] for each in listed.json()["blueprints"]]
        assert ("desk" in names, "ferries" in names, "tenants" in names) == (True, False, False)
        assert "ferries" not in listed.text
        own = await send(gateway, travel, "GET", "/v1/blueprints")
        assert "ferries" in own.text
        for path in ("ferries", "travel", "tenants/travel/ferries", "..%2Ftenants%2Ftravel"):
            shown = await send(gateway, review, "GET", f"/v1/blueprints/{path}")
            assert shown.status_code == 404, path
        body = {"blueprint": "ferries"}
        opened = await send(gateway, travel, "POST", "/v1/sessions", json=body)
        assert opened.status_code == 201, opened.text
        for path, form in (
            ("/v1/sessions", body),
            ("/v1/assemble", body | {"text": "Hi"}),
            ("/v1/what-if", body | {"budget": 900}),
        ):
            foreign = await send(gateway, review, "POST", path, json=form)
            nobodys = await send(
                gateway, review, "POST", path, json=form | {"blueprint": "nothing"}
            )
            assert foreign.status_code == nobodys.status_code, path
            assert foreign.json().get("code") == nobodys.json().get("code"), path
        # What it is told of is what it has.
        guessed = await send(gateway, review, "POST", "/v1/sessions", json={"blueprint": "ferrie"})
        assert "ferries" not in guessed.text


async def test_a_tenants_own_blueprint_goes_before_that_of_all(
    bare: RunningGateway, places: Path
) -> None:
    async with start_key_gateway(bare, blueprints=(places,)) as gateway:
        pricing = create_flat_pricing("puppet-1")
        worker = build_worker(bare.backend, bare.store, bare.model, pricing, blueprints=(places,))
        for tenant, version, owner in (
            ("travel", 2, "the travel desk"),
            ("review", 1, "everybody"),
        ):
            key = await create_key(gateway, "desk", "caller", tenant=tenant)
            shown = await send(gateway, key, "GET", "/v1/blueprints/desk")
            assert shown.json()["version"] == version
            opened = await send(gateway, key, "POST", "/v1/sessions", json={"blueprint": "desk"})
            path = f"/v1/sessions/{opened.json()['session']}"
            await send(gateway, key, "POST", f"{path}/turns", json={"text": "Hi"})
            async with run_tasks(run_worker(bare.backend, tenant, worker, asyncio.Queue())):
                watched = await send(gateway, key, "GET", f"{path}/turns/1/stream", timeout=30)
            assert "event: done" in watched.text
            assert f"You work for {owner}." in str(bare.model.requests[-1].messages)
