"""What is wrong with the arguments of an answer's tool calls, by the schemas of its request.

A person is not asked about a call that its server would refuse, nor about one whose arguments two
readers may understand differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from pydantic import JsonValue

from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.bounded_json import parse_tool_arguments
from turnlog.projections.structured_output.schema_validation import (
    find_schema_fault,
    find_violation,
)
from turnlog.services.platform.concurrency import run_in_thread

_PATH_CHARACTERS: Final = 200


async def find_argument_faults(
    requests: Sequence[ToolRequest],
    tools: Sequence[Mapping[str, object]],
    own_names: Mapping[str, str],
) -> dict[int, str]:
    """Return what is wrong with the arguments of each request that breaks its tool's schema.

    The keys are the positions of the requests, from 1. `own_names` are the names in the requests of
    tools whose names in the definitions are others, by the latter. A request whose arguments are no
    JSON object is not among them, and neither is one whose tool has a schema that cannot be used.
    """
    schemas = {own_names.get(name, name): schema for name, schema in _iterate_schemas(tools)}
    called = [each for each in requests if each.tool in schemas]
    if not called:
        return {}
    return await run_in_thread(lambda: dict(_iterate_faults(requests, schemas)))


def _iterate_schemas(
    tools: Sequence[Mapping[str, object]],
) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    for tool in tools:
        function = cast("Mapping[str, JsonValue]", tool.get("function", {}))
        schema = function.get("parameters")
        if isinstance(schema, dict):
            yield str(function.get("name")), schema


def _iterate_faults(
    requests: Sequence[ToolRequest], schemas: Mapping[str, dict[str, JsonValue]]
) -> Iterator[tuple[int, str]]:
    for number, request in enumerate(requests, 1):
        schema, arguments = schemas.get(request.tool), parse_tool_arguments(request.arguments)
        if schema is None or arguments is None or find_schema_fault(schema) is not None:
            continue
        violation = find_violation(arguments, schema)
        if violation is not None:
            path = ".".join(map(str, violation.path))[:_PATH_CHARACTERS] or "the arguments"
            yield number, f"{path}: {violation.rule}"
