"""Each role calls the routes that the table has for it, and no other one."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.listed_routes import iterate_routes
from tests.services.gateway.requests.test_trusted_proxy import HEADER, LOOPBACK, open_clerk
from turnlog.services.identity.permissions import (
    OPEN_PATHS,
    ROLE_PERMISSIONS,
    ROUTE_PERMISSIONS,
    find_permission,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[4]

ADA = {HEADER: "ada"}


async def test_every_route_has_a_permission_and_every_permission_a_route() -> None:
    assert {path for _, path in iterate_routes()} == {*ROUTE_PERMISSIONS, *OPEN_PATHS}


async def test_page_of_permissions_is_fresh() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate/permissions.py"))
    written: str = generator["TARGET"].read_text()
    assert generator["format_page"]() == written, "it is stale: run `make docs`"


async def send(gateway: RunningGateway, method: str, path: str, headers: Any = ADA) -> Any:  # noqa: ANN401
    place = re.sub(r"\{(\w+)(:path)?\}", "1", path)
    return await gateway.http.request(method, place, headers=headers)


async def test_a_proxied_user_may_do_what_a_caller_may(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        refused = {
            (method, path)
            for method, path in iterate_routes()
            if (await send(gateway, method, path)).status_code == 403
        }
        allowed = ROLE_PERMISSIONS["caller"]
        own = {("GET", "/v1/quotas/{user:path}")}
        expected = {
            (method, path)
            for method, path in iterate_routes()
            if path not in OPEN_PATHS and find_permission(path, method) not in allowed
        }
        assert refused == expected | own
        assert {"PUT /v1/quotas/{user:path}", "POST /v1/knowledge/import", "GET /v1/events"} <= {
            " ".join(each) for each in refused
        }
        answer = (await send(gateway, "GET", "/v1/quotas")).json()
        assert (answer["code"], answer["field"]) == ("not-permitted", "Authorization")
        assert "TURNLOG_OPERATORS" in answer["fix"]


async def test_a_proxied_user_reads_the_own_quota_and_cannot_raise_it(bare: RunningGateway) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        body = {"turns_per_minute": 9}
        assert (await gateway.http.put("/v1/quotas/ada", json=body, headers=ADA)).status_code == 403
        assert (await gateway.http.get("/v1/quotas/bo", headers=ADA)).status_code == 403
        own = await gateway.http.get("/v1/quotas/ada", headers=ADA)
        assert (own.status_code, own.json()["sequence"]) == (200, 0)


async def test_stored_texts_and_bundles_are_for_operators(bare: RunningGateway) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        session = (await open_clerk(gateway, ADA)).json()["session"]
        for query in ("events?stored=true", "events?stored=1", "export?stored=on"):
            answer = await gateway.http.get(f"/v1/sessions/{session}/{query}", headers=ADA)
            assert (answer.status_code, answer.json()["field"]) == (403, "stored"), query
        for query in ("format=bundle", "format=ndjson&format=bundle"):
            answer = await gateway.http.get(f"/v1/sessions/{session}/export?{query}", headers=ADA)
            assert (answer.status_code, answer.json()["field"]) == (403, "format"), query
        for query in ("events", "events?stored=false", "export", "export?format=chat"):
            answer = await gateway.http.get(f"/v1/sessions/{session}/{query}", headers=ADA)
            assert answer.status_code == 200, query


@pytest.mark.parametrize("operators", [("bo", "ada"), ("*",)])
async def test_named_operators_and_requests_without_a_user_are_not_restricted(
    bare: RunningGateway, operators: tuple[str, ...]
) -> None:
    settings = {"actor_proxies": LOOPBACK, "operators": operators}
    async with bare.start_another_gateway(**settings) as gateway:
        for headers in (ADA, {}):
            answers = [await send(gateway, *route, headers) for route in iterate_routes()]
            assert 403 not in {each.status_code for each in answers}
    async with bare.start_another_gateway(actor_proxies=LOOPBACK, operators=("bo",)) as gateway:
        assert (await send(gateway, "GET", "/v1/quotas")).status_code == 403
