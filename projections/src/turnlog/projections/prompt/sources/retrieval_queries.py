"""The queries of a retrieval: the text of the turn, pieces of it, items of an input, or an answer.

Pieces and items are short and about one thing each, so that an index finds more by them than by the
whole, whose words and meaning are an average.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.model.retrieval_events import QueryOrigin
from turnlog.projections.blueprint.linear_patterns import compile_pattern
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    MAX_QUERIES,
    CallQueries,
    InputQueries,
    PatternQueries,
    QueriesSpec,
)
from turnlog.projections.blueprint.template_slots import format_prompt_value
from turnlog.projections.structured_output.json_repair import (
    InvalidAnswer,
    find_json,
    remove_noise,
)

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
    spec: QueriesSpec | None, text: str, inputs: Mapping[str, JsonValue], answer: str = ""
) -> RetrievalQueries:
    """Return the queries of a retrieval in a turn with this text and these inputs.

    `answer` is that of the call which writes them. Equal queries are searched for once. Without
    any, the text of the turn is the query.
    """
    origin, found = _find_queries(spec, text, inputs, answer)
    cut = (each.strip()[:MAX_QUERY_CHARACTERS] for each in found)
    distinct = tuple(dict.fromkeys(filter(None, cut)))
    if not distinct:
        return RetrievalQueries((text[:MAX_QUERY_CHARACTERS],), "text")
    most = spec.at_most if isinstance(spec, CallQueries) else MAX_QUERIES
    return RetrievalQueries(distinct[:most], origin, len(distinct[most:]))


def _find_queries(
    spec: QueriesSpec | None, text: str, inputs: Mapping[str, JsonValue], answer: str
) -> tuple[QueryOrigin, Sequence[str]]:
    match spec:
        case None:
            return "text", ()
        case CallQueries():
            return "call", parse_queries(answer)
        case InputQueries(input=name):
            return "input", _list_items(inputs.get(name))
        case PatternQueries(pattern=pattern, input=name):
            divided = text if name is None else format_prompt_value(inputs.get(name))
            return "pattern", divide_text(pattern, divided)
        case _ as never:
            assert_never(never)


_LIST_MARK: Final = re.compile(r"(?:[-*\u2022]|\d{1,2}[.)])\s+")

_CODE_FENCE: Final = "```"


def parse_queries(answer: str) -> list[str]:
    """Return the queries that a model wrote: the texts of a list, or else each line.

    The list is found and repaired like any JSON of a model, also as a value of an object. JSON
    without a list of texts has no queries. A line may begin with the mark of a list.
    """
    try:
        candidates = find_json(answer)
    except InvalidAnswer:
        candidates = []
    for candidate in candidates:
        if texts := _list_texts(candidate.value):
            return texts
    if any(each.repair_scope == "all" for each in candidates):
        return []
    said, _ = remove_noise(answer)
    lines = (line for line in said.splitlines() if not line.startswith(_CODE_FENCE))
    return [_remove_list_mark(line.strip()) for line in lines]


def _remove_list_mark(line: str) -> str:
    """Return a line without a mark at its beginning; a mark within it is part of the query."""
    mark = _LIST_MARK.match(line)
    return line[mark.end() :] if mark else line


def _list_texts(value: JsonValue) -> list[str]:
    """Return the texts of a list, or of the first list with texts in an object."""
    values = value.values() if isinstance(value, dict) else [value]
    lists = (each for each in values if isinstance(each, list))
    found = ([each for each in items if isinstance(each, str)] for items in lists)
    return next(filter(None, found), list[str]())


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
