"""Hostile bodies of every route that takes one: refused or accepted, and no loop is held for long.

The bodies are built from the published OpenAPI: each field of each body in turn has a value that is
as large, as deep or as wide as the limit of a body allows. With FAULTS=all all of them are sent and
the loop is measured; the suite sends those of each route's first field, of a quarter of the limit
except to one route for each limit, since every route has the same reader of bodies.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.faults.loop_holds import check_loop_holds
from tests.faults.suite_extent import RUN_EVERYTHING
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from turnlog.contract import api_paths

OPENAPI: Final = Path(__file__).parents[3] / "docs/reference/openapi.json"


def build_documents(size: int) -> Mapping[str, bytes]:
    """Build bodies of up to `size` bytes that are no form of any route."""
    return {
        "open brackets": b"[" * size,
        "open objects": b'{"a":' * (size // 5),
        "nested lists": b"[" * (size // 2) + b"]" * (size // 2),
        "a wide list": b"[" + b"0," * (size // 2 - 2) + b"0]",
        "a long number": b"9" * size,
        "a long exponent": b"1e" + b"9" * (size - 2),
        "repeated keys": b"{" + b'"a":0,' * (size // 6 - 2) + b'"a":0}',
        "distinct keys": b"{" + b",".join(b'"%d":0' % n for n in range(size // 12)) + b"}",
        "halves of surrogate pairs": b'"' + rb"\ud800" * (size // 6 - 1) + b'"',
        "blanks": b" " * size,
    }


def build_values(size: int) -> Mapping[str, bytes]:
    """Build values of up to `size` bytes for a field."""
    return {
        "a YAML of open brackets": encode("[" * size),
        "a YAML of indents": encode("\n".join(" " * n + "a:" for n in range(int(size**0.5)))),
        "a YAML of aliases": encode(build_yaml_aliases(40)),
        "a pattern": encode("(" * (size // 2) + "a{99}{99}{99}"),
        "placeholders": encode("{{" * (size // 2)),
        "a long text": encode("x" * size),
        "many texts": b'["x"' + b',"x"' * (size // 4 - 2) + b"]",
        "many names": b"{" + b",".join(b'"n%d":"x"' % n for n in range(size // 16)) + b"}",
        "many objects": b"[{}" + b",{}" * (size // 3 - 2) + b"]",
        "nested lists": b"[" * (size // 2) + b"]" * (size // 2),
        "a long number": b"9" * size,
    }


def encode(text: str) -> bytes:
    return json.dumps(text).encode()


def build_yaml_aliases(depth: int) -> str:
    """Return a YAML whose value has two to the power of `depth` leaves."""
    lines = [f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]" for n in range(1, depth)]
    return "\n".join(["b0: &b0 [0, 0]", *lines])


def list_body_schemas() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """List the method, path and schema of every route with a body of JSON."""
    document = json.loads(OPENAPI.read_text())
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {"content": {}})["content"]
            if "application/json" in content:
                schema = content["application/json"]["schema"]
                reference = (schema.get("anyOf") or [schema])[0]["$ref"]
                yield method.upper(), path, schemas[reference.rpartition("/")[2]]


ROUTES: Final = {
    f"{method} {path}": (method, path, schema) for method, path, schema in list_body_schemas()
}

LARGE_BODIES: Final = {api_paths.IMPORT_SEGMENTS, api_paths.IMPORT_KNOWLEDGE, api_paths.WHAT_IF}

WHOLE_BODIES: Final = {api_paths.SEARCH_KNOWLEDGE, api_paths.IMPORT_KNOWLEDGE}
"""The routes whose bodies reach the limit in the suite too, one for each limit."""

ROOM: Final = 2_000
"""Bytes for the other fields of a body."""


def build_bodies(path: str, schema: Mapping[str, Any], limit: int) -> Iterator[tuple[str, bytes]]:
    """Build the hostile bodies of a route; without RUN_EVERYTHING those of its first field."""
    yield from build_documents(limit).items()
    # An accepted question waits for its answer, and there is no worker.
    required: list[str] = [] if path == api_paths.ASK else schema.get("required", [])
    fields: list[str] = list(schema.get("properties", {}))
    for field in fields if RUN_EVERYTHING else fields[:1]:
        for kind, value in build_values(limit - ROOM).items():
            members = {**dict.fromkeys(required, b'"x"'), field: value}
            written = (b'"%b":%b' % (key.encode(), each) for key, each in members.items())
            yield f"{field}: {kind}", b"{" + b",".join(written) + b"}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("hostile")
    async with start_service(MemoryBackend(), "hostile", folder, working=False) as running:
        yield running


pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
    pytest.mark.slow("bodies are large on purpose"),
]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("route", ROUTES)
async def test_hostile_bodies_of_a_route_hold_no_loop(gateway: RunningGateway, route: str) -> None:
    method, template, schema = ROUTES[route]
    session = await gateway.open_session("assistant")
    path = re.sub(r"\{(\w+)\}", lambda name: session if name[1] == "session" else "1", template)
    is_large = template in LARGE_BODIES
    limit = gateway.settings.import_limit if is_large else gateway.settings.body_limit
    if not RUN_EVERYTHING and template not in WHOLE_BODIES:
        limit //= 4
    for name, body in build_bodies(template, schema, limit):
        assert len(body) <= limit, name
        async with check_loop_holds(f"{route} {name}"):
            answer = await gateway.http.request(
                method, path, content=body, headers={"Content-Type": "application/json"}
            )
        assert answer.status_code < 500, (name, answer.text[:500])
        if answer.status_code >= 400:
            problem = answer.json()
            assert problem["detail"], name
            assert problem.get("field") != "body" or answer.status_code != 413, name
            assert len(answer.content) < 20_000, name
