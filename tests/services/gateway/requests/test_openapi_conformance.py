"""The gateway checked against its own OpenAPI document by generated requests.

Half of the requests are valid and half are not; half name an open session and its first turn. Every
response has a status, a media type and a schema that the document names, and none is a server
error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.requests.route_table import DOCUMENT, ROUTES, DocumentedRoute

# pyright: reportUnknownVariableType=false
# schemathesis leaves the types of its own generics open.


pytestmark = pytest.mark.asyncio(loop_scope="module")

CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

CALM: Final = settings(
    max_examples=500 if os.environ.get("FAULTS") == "all" else 3,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

Asked = Case[Any]

SCHEMA: Final = schemathesis.openapi.from_dict(dict(DOCUMENT))

DOCUMENTS: Final = tuple(route for route in ROUTES if not route.template.endswith("/stream"))
"""Routes with one response body; a stream lasts as long as its turn."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    async with start_service(
        MemoryBackend(), "described", tmp_path_factory.mktemp("rows")
    ) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def places(stand: RunningGateway) -> Mapping[str, str]:
    """Ids of a session, a turn and other objects that exist."""
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    return {"session": session, "turn": "1", "call": "1.1", "blueprint": "clerk"}


async def test_header_parameters_are_described_as_optional_strings() -> None:
    headers = [route.list_parameters("header") for route in ROUTES]
    kinds = [
        each["type"] for header in headers for name in header for each in header[name]["anyOf"]
    ]
    assert set(kinds) == {"string", "null"}


@pytest.mark.promise("P22")
@pytest.mark.parametrize("route", DOCUMENTS, ids=str)
async def test_responses_of_every_route_match_the_openapi_document(
    stand: RunningGateway, places: Mapping[str, str], route: DocumentedRoute
) -> None:
    def answered(case: Asked) -> None:
        response = case.call(base_url=stand.address, timeout=60)
        case.validate_response(response, checks=CHECKS)

    operation = SCHEMA[route.template][route.method]
    await asyncio.to_thread(check_each_case, operation, places, answered)


def check_each_case(
    operation: Any,  # noqa: ANN401 - generic in what nobody names
    places: Mapping[str, str],
    look: Callable[[Asked], None],
) -> None:
    """Look at cases that keep to the document and at cases that break it."""
    kept, broken = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @CALM
    @given(case=st.one_of(kept, broken), real=st.booleans())
    def looked(case: Asked, *, real: bool) -> None:
        look(fill_known_values(case, places) if real else case)

    looked()


def fill_known_values(case: Asked, places: Mapping[str, str]) -> Asked:
    """Replace the ids of a case by ids that exist."""
    known = {name: places[name] for name in case.path_parameters if name in places}
    case.path_parameters = {**case.path_parameters, **known}
    if isinstance(case.body, dict) and "blueprint" in case.body:
        case.body["blueprint"] = "assistant"
    return case
