"""Every role of both tenants at every route of real processes, and each at what the other has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from tests.e2e.tenants.tenant_pair import (
    EVERY_ROLE,
    NAMES,
    TRYING_NAMES,
    UNIQUE_PLACES,
    TenantPair,
    create_strange_places,
    fill_template,
)
from tests.services.gateway.listed_routes import fill_path, iterate_routes
from tests.services.gateway.requests.route_table import DOCUMENT, ROUTES
from turnlog.services.identity.permissions import OPEN_PATHS, ROLE_PERMISSIONS, find_permission

# pyright: reportUnknownVariableType=false
# schemathesis leaves the types of its own generics open.

GeneratedCase = Case[Any]

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("the processes of all roles start"),
]


@pytest.mark.promise("P15")
@pytest.mark.parametrize("role", ROLE_PERMISSIONS)
@pytest.mark.parametrize("name", TRYING_NAMES)
async def test_a_role_of_a_tenant_reaches_exactly_its_routes(
    pair: TenantPair, name: str, role: str
) -> None:
    tenant, _ = pair.get_pair(name)
    for method, path in iterate_routes():
        if path in OPEN_PATHS:
            continue
        answer = await tenant.send(method, fill_path(path), role)
        is_allowed = find_permission(path, method) in ROLE_PERMISSIONS[role]  # type: ignore[index]
        assert (answer.status_code != 403) == is_allowed, (method, path, answer.text)
        assert answer.status_code < 500, (method, path, answer.text)


@pytest.mark.promise("P15")
@pytest.mark.parametrize("role", [EVERY_ROLE, *ROLE_PERMISSIONS])
@pytest.mark.parametrize("name", TRYING_NAMES)
async def test_what_another_tenant_has_is_what_nobody_has(
    pair: TenantPair, name: str, role: str
) -> None:
    """By every route, with every id of the other one; and nothing of the other one changes."""
    tenant, other = pair.get_pair(name)
    before = await other.read_everything()
    strange = create_strange_places(other.places)
    tried = 0
    for method, path in iterate_routes():
        if "{" not in path or (path.startswith("/v1/blueprints") and method == "GET"):
            continue
        foreign = await tenant.send(method, fill_template(path, other.places), role)
        nobodys = await tenant.send(method, fill_template(path, strange), role)
        told = foreign.text
        for place in other.places.keys() & UNIQUE_PLACES:
            told = told.replace(other.places[place], strange[place])
        assert (foreign.status_code, told) == (nobodys.status_code, nobodys.text), (method, path)
        assert other.secret not in foreign.text
        assert foreign.status_code < 500, (method, path, foreign.text)
        tried += 1
    assert tried > 50
    assert await other.read_everything() == before


SCHEMA: Final = schemathesis.openapi.from_dict(dict(DOCUMENT))

DRAWN: Final = settings(
    max_examples=200 if os.environ.get("FAULTS") == "all" else 3,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

DOCUMENTS: Final = tuple(
    route
    for route in ROUTES
    if route.template.startswith("/v1/") and not route.template.endswith("/stream")
)


@pytest.mark.promise("P15")
async def test_generated_requests_bring_nothing_of_another_tenant_and_no_server_error(
    pair: TenantPair,
) -> None:
    """Half of them name the sessions and the things of the other tenant, in path and query."""
    attacker, owner = pair.get_pair(NAMES[1])
    before = await owner.read_everything()
    headers = {"Authorization": f"Bearer {attacker.keys[EVERY_ROLE]}"}
    statuses = set[int]()

    def send(case: GeneratedCase) -> None:
        answer = case.call(base_url=pair.address, headers=headers, timeout=60)
        assert answer.status_code < 500, (str(case), answer.text)
        assert owner.secret.encode() not in answer.content, str(case)
        statuses.add(answer.status_code)

    for route in DOCUMENTS:
        operation = SCHEMA[route.template][route.method]
        await asyncio.to_thread(draw_cases, operation, owner.places, send)
    assert {200, 404, 422} <= statuses
    assert await owner.read_everything() == before


def draw_cases(
    operation: Any,  # noqa: ANN401 - generic in what nobody names
    places: Mapping[str, str],
    send: Callable[[GeneratedCase], None],
) -> None:
    """Send cases that keep to the document and cases that break it."""
    kept, broken = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @DRAWN
    @given(case=st.one_of(kept, broken), foreign=st.booleans())
    def draw(case: GeneratedCase, *, foreign: bool) -> None:
        if foreign:
            for part in (case.path_parameters, case.query):
                part.update({name: places[name] for name in part if name in places})
            if isinstance(case.body, dict):
                case.body.update({name: places[name] for name in case.body if name in places})
        send(case)

    draw()
