"""The HTTP answer of every error class: status, code and advice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import httpx
import pytest

from tests.services.gateway.gateway_service import NO_TRACING, RunningGateway
from turnlog.events.errors import Conflict, Corrupt, Refused, TooLarge, Unavailable
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.gateway.dependencies import build_dependencies
from turnlog.services.gateway.main import serve_app
from turnlog.services.http.problem_details import convert_error, create_error_response


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Refused("unknown-session", "d"), 404, "unknown-session"),
        (Refused("session-closed", "d"), 409, "session-closed"),
        (Refused("queue-full", "d", fix="wait"), 429, "queue-full"),
        (Refused("wrong-type", "d"), 422, "wrong-type"),
        (TooLarge("event", 2, 1), 413, "too-large"),
        (Conflict("s", 1, 5), 409, "conflict"),
        (Unavailable("nats", "d"), 503, "unavailable"),
        (Corrupt("event 3", "d"), 500, "corrupt"),
        (ZeroDivisionError("secret"), 500, "bug"),
    ],
)
def test_every_error_class_has_its_status_code_and_fix(
    error: Exception, status: int, code: str
) -> None:
    problem = convert_error(error)
    assert (problem.status, problem.code, problem.type) == (
        status,
        code,
        f"urn:turnlog:problem:{code}",
    )
    assert problem.fix
    assert "secret" not in problem.model_dump_json()


def test_conflict_includes_the_current_sequence() -> None:
    assert convert_error(Conflict("s", 1, 5)).sequence == 5


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (1.0, "1"), (7.2, "8")])
def test_retryable_error_sets_retry_after(seconds: float, header: str) -> None:
    response = create_error_response(Unavailable("nats", "d", retry_after=seconds))
    assert response.headers["Retry-After"] == header


def test_problem_document_omits_empty_fields() -> None:
    problem: Mapping[str, object] = json.loads(
        bytes(create_error_response(Refused("bad-id", "d")).body)
    )
    assert set(problem) == {"type", "title", "status", "detail", "code", "fix"}


@dataclass(slots=True)
class BrokenLibrary(BlueprintFolders):
    """A library with a bug."""

    def list_names(self) -> tuple[str, ...]:
        """See `Library.names`."""
        raise ZeroDivisionError("a secret of the program")


@pytest.mark.asyncio(loop_scope="module")
async def test_unexpected_exception_returns_a_500_problem_without_details(
    bare: RunningGateway,
) -> None:
    settings = bare.settings.model_copy(update={"http": "127.0.0.1:0"})
    parts = replace(bare.parts, blueprint_folders=BrokenLibrary(), shutdown_event=asyncio.Event())
    dependencies = build_dependencies(settings, parts, NO_TRACING)
    async with httpx.AsyncClient() as http, serve_app(dependencies) as address:
        response = await http.get(f"{address}/v1/blueprints")
        assert (response.status_code, response.json()["code"]) == (500, "bug")
        assert response.headers["Content-Type"] == "application/problem+json"
        assert "secret" not in response.text
        assert (await http.get(f"{address}/healthz")).status_code == 200
