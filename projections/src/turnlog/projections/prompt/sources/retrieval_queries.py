"""The queries of a retrieval: the text of the turn, or pieces of it, or the items of an input.

Pieces and items are short and about one thing each, so that an index finds more by them than by the
whole, whose words and meaning are an average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.model.retrieval_events import QueryOrigin
from turnlog.projections.blueprint.linear_patterns import compile_pattern
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    InputQueries,
    PatternQueries,
    QueriesSpec,
)
from turnlog.projections.blueprint.template_slots import format_prompt_value

MAX_QUERIES: Final = 32
"""Most queries of one retrieval."""

MAX_QUERY_CHARACTERS: Final = 4_000
"""Characters of a query that are searched for; what is longer is hardly a question."""


@dataclass(frozen=True, slots=True)
class RetrievalQueries:
    """What a retrieval searches for."""

    texts: tuple[str, ...]
    """At least one."""
    origin: QueryOrigin
    unsearched: int = 0
    """The number of queries beyond the limit."""


def build_queries(
    spec: QueriesSpec | None, text: str, inputs: Mapping[str, JsonValue]
) -> RetrievalQueries:
    """Return the queries of a retrieval in a turn with this text and these inputs.

    Equal ones are searched for once. Without any, the text of the turn is the query.
    """
    origin, found = _find_queries(spec, text, inputs)
    cut = (each.strip()[:MAX_QUERY_CHARACTERS] for each in found)
    distinct = tuple(dict.fromkeys(filter(None, cut)))
    if not distinct:
        return RetrievalQueries((text[:MAX_QUERY_CHARACTERS],), "text")
    return RetrievalQueries(distinct[:MAX_QUERIES], origin, len(distinct[MAX_QUERIES:]))


def _find_queries(
    spec: QueriesSpec | None, text: str, inputs: Mapping[str, JsonValue]
) -> tuple[QueryOrigin, Sequence[str]]:
    match spec:
        case None:
            return "text", ()
        case InputQueries(input=name):
            return "input", _list_items(inputs.get(name))
        case PatternQueries(pattern=pattern, input=name):
            divided = text if name is None else format_prompt_value(inputs.get(name))
            return "pattern", divide_text(pattern, divided)
        case _ as never:
            assert_never(never)


def _list_items(value: JsonValue) -> list[str]:
    return [
        "\n".join(map(format_prompt_value, item.values()))
        if isinstance(item, dict)
        else format_prompt_value(item)
        for item in (value if isinstance(value, list) else [value])
    ]


def divide_text(pattern: str, text: str) -> list[str]:
    """Return the pieces of a text, each beginning at a line that the pattern matches."""
    compiled = compile_pattern(pattern)
    pieces: list[list[str]] = []
    for line in text.split("\n"):
        if compiled.has_match(line):
            pieces.append([])
        if pieces:
            pieces[-1].append(line)
    return ["\n".join(piece) for piece in pieces]
