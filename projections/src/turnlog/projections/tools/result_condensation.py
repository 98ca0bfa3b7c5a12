"""Condenses tool results for prompts, and describes the tool work of a turn.

A short result is included as it is. A long one is replaced by its shape: its members, the number of
rows of its table, their columns and a sample; for a text, its length and its beginning. Every part
has a length limit, whatever a server sends. The whole result is a blob that can be fetched.

A result has members if it is JSON from its first character to its last. Servers send one value, or
several on lines of their own, and often nest the rows in an object. Everything else is text, and so
is JSON of so many values that parsing it would hold up a whole process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.content import Digest, PlainText, encode_canonical
from turnlog.events.storable_text import replace_unstorable
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.bounded_json import check_value_count, parse_embedded_json
from turnlog.projections.blueprint.schema.tool_specs import CondensationSpec
from turnlog.projections.blueprint.storable_json import cut_text

_RESULT_DECODER: Final = json.JSONDecoder()
"""Accepts NaN, which servers in Python write."""

_VALUE_SEPARATOR: Final = re.compile(r"[ \t\r]*(\n\s*|\Z)")
"""The separator between two values, and after the last one."""

MAX_MEMBER_DEPTH: Final = 4
"""Maximum depth at which members are searched."""

WHOLE_RESULT: Final = ""
"""The name of a value that is not inside an object."""


def parse_members(result: str) -> Mapping[str, JsonValue] | None:
    """Return the members of a result by their dotted paths; None if it has none."""
    try:
        check_value_count(result)
        values = [*_iterate_values(result.strip())]
    except ValueError:
        return None
    match values:
        case [dict() as found]:
            return dict(_iterate_leaves(found))
        case [list() as rows]:
            return {WHOLE_RESULT: rows}
        case [] | [_]:
            return None
        case _:
            return {WHOLE_RESULT: values}


def _iterate_values(text: str) -> Iterator[JsonValue]:
    """Yield one value after the other; raise `ValueError`."""
    at = 0
    while at < len(text):
        value, end = parse_embedded_json(text, at, decoder=_RESULT_DECODER)
        between = _VALUE_SEPARATOR.match(text, end)
        if between is None:
            raise ValueError(text[end : end + 1])
        at = between.end()
        yield value


def _iterate_leaves(
    found: Mapping[str, JsonValue], above: str = "", deep: int = MAX_MEMBER_DEPTH
) -> Iterator[tuple[str, JsonValue]]:
    for name, value in found.items():
        if isinstance(value, dict) and value and deep:
            yield from _iterate_leaves(value, f"{above}{name}.", deep - 1)
        else:
            yield f"{above}{name}", value


MAX_BEGINNING_CHARACTERS: Final = 400
"""Characters shown of a text that is too long."""

MAX_LIST_CHARACTERS: Final = 300
"""Characters shown of the names of columns, and of members."""

MAX_ROW_CHARACTERS: Final = 120
"""Characters shown of a row."""

MAX_CELL_CHARACTERS: Final = 60
"""Characters shown of a value in a row, of a name, and of one member among many."""

MAX_ARGUMENT_CHARACTERS: Final = 2_000
"""Characters shown of the arguments of a call."""

_LATER_TURNS_SPEC: Final = CondensationSpec(rows=20, chars=400)
"""The limits for results in later turns."""


@dataclass(frozen=True, slots=True)
class CondensedResult:
    """The text of a result for a prompt, and whether it was condensed."""

    text: str
    treatment: Literal["kept", "condensed"]


_RESULT_INDENT: Final = "  "


def format_tool_result(tool: str, arguments: str, result: str) -> str:
    """Format a tool call and its result as one text, so that they cannot be separated.

    All lines but the first are indented, so that no result can look like that of another tool.
    """
    text = f"{tool} {cut_text(arguments or '{}', MAX_ARGUMENT_CHARACTERS)}\n{result}"
    return _RESULT_INDENT.join(text.splitlines(keepends=True))


def find_result_start(tool: str, arguments: str, text: str) -> int:
    """Return where the result begins in a text of `format_tool_result`; 0 if that is not known."""
    start = len(format_tool_result(tool, arguments, "")) + len(_RESULT_INDENT)
    return start if text.startswith(format_tool_result(tool, arguments, "")) and text[start:] else 0


def condense_result(result: str, spec: CondensationSpec) -> CondensedResult:
    """Return a short result as it is and condense a long one."""
    members = parse_members(result)
    if len(result) <= spec.chars and _count_rows(result, members) <= spec.rows:
        return CondensedResult(result, "kept")
    text = replace_unstorable(_format_condensed(result, members or {}, spec))
    return (
        CondensedResult(text, "condensed")
        if len(text) < len(result)
        else CondensedResult(result, "kept")
    )


def summarise_result(result: str) -> str | None:
    """Return the summary of a result for later turns; None if it would not be shorter."""
    gist = condense_result(result, _LATER_TURNS_SPEC)
    return gist.text if gist.treatment == "condensed" else None


def name_result(tool: str, arguments: str, result: str, digest: Digest) -> str:
    """Return the text that only names a result, with its length and the start of its digest."""
    called = f"{tool} {cut_text(arguments or '{}', MAX_CELL_CHARACTERS)}"
    return f"{called}: {len(result)} characters, kept as {digest[:_SHORT_DIGEST]}"


@dataclass(frozen=True, slots=True)
class ResultTexts:
    """The texts of a tool result for prompts, from the longest to the shortest."""

    text: PlainText
    summary: PlainText | None
    """The text for later turns; None if it would be the same."""
    brief: PlainText | None
    """The text that only names the result; None if it would be no shorter."""
    treatment: Literal["kept", "condensed"]


def build_result_texts(
    request: ToolRequest,
    result: str,
    digest: Digest,
    outcome: str,
    spec: CondensationSpec,
    note: str = "",
) -> ResultTexts:
    """Build the texts of a result; `note` is added to the longest one."""
    tool, arguments = request.tool, request.arguments
    gist, is_answer = condense_result(result, spec), outcome == "answered"
    if not _fits_event(format_tool_result(tool, arguments, gist.text)):
        gist = condense_result(result, CondensationSpec(sample=spec.sample))
    shown = (gist.text if is_answer else f"{outcome}: {gist.text}") + note
    later = summarise_result(result) if is_answer else None
    text = format_tool_result(tool, arguments, shown)
    brief = name_result(tool, " ".join(arguments.split()), result, digest)
    return ResultTexts(
        PlainText(text=text),
        PlainText(text=format_tool_result(tool, arguments, later)) if later else None,
        PlainText(text=brief) if len(brief) < len(text) else None,
        gist.treatment,
    )


_MAX_TEXT_BYTES: Final = MAX_EVENT_BYTES - 100_000
"""Bytes that the text of a result may have in its event, beside everything else."""

_MAX_CHARACTER_BYTES: Final = 6
"""Bytes of a character in an event, where it is written as an escape."""


def _fits_event(text: str) -> bool:
    if len(text) * _MAX_CHARACTER_BYTES <= _MAX_TEXT_BYTES:
        return True
    return len(text) <= _MAX_TEXT_BYTES and len(encode_canonical(text).encode()) <= _MAX_TEXT_BYTES


def list_rows(result: str) -> list[str]:
    """Return the rows of a result: those of its longest list, or its lines if it is a text."""
    members = parse_members(result)
    if members is None:
        return [line.strip() for line in result.split("\n") if line.strip()]
    lists = [each for each in members.values() if isinstance(each, list)]
    rows = max(lists, key=len) if lists else []
    return [replace_unstorable(encode_canonical(row)) for row in rows]


_SHORT_DIGEST: Final = len("sha256:") + 12


def _count_rows(result: str, members: Mapping[str, JsonValue] | None) -> int:
    if members is None:
        return _count_lines(result)
    return max((len(each) for each in members.values() if isinstance(each, list)), default=0)


def _count_lines(text: str) -> int:
    return text.strip("\n").count("\n") + 1


def _format_condensed(result: str, members: Mapping[str, JsonValue], spec: CondensationSpec) -> str:
    return _format_shape(result, members, spec) if members else _format_beginning(result)


def _format_shape(result: str, members: Mapping[str, JsonValue], spec: CondensationSpec) -> str:
    """Format the longest list as a table, after the other members."""
    lists = {name: rows for name, rows in members.items() if isinstance(rows, list)}
    long = {
        name: size
        for name, rows in lists.items()
        if (size := len(encode_canonical(rows))) > MAX_CELL_CHARACTERS
    }
    table = max(long, key=lambda name: long[name], default=None)
    rest = {name: value for name, value in members.items() if name != table}
    lines = [f"{len(result)} characters, in short: {_format_members(rest)}"] if rest else []
    if table is not None:
        lines += _iterate_table_lines(table, lists[table], spec)
    return "\n".join(lines)


def _format_members(members: Mapping[str, JsonValue]) -> str:
    max_characters = max(MAX_CELL_CHARACTERS, MAX_LIST_CHARACTERS // len(members))
    return _join_names(
        [
            f"{cut_text(name, MAX_CELL_CHARACTERS)}: {_format_member(value, max_characters)}"
            for name, value in members.items()
        ]
    )


def _format_member(value: JsonValue, max_characters: int) -> str:
    encoded = encode_canonical(value)
    if isinstance(value, list) and len(encoded) > MAX_CELL_CHARACTERS:
        return f"{len(value)} rows"
    return cut_text(encoded, max_characters)


def _iterate_table_lines(
    name: str, rows: Sequence[JsonValue], spec: CondensationSpec
) -> Iterator[str]:
    columns = [*dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row)]
    names = _join_names([cut_text(each, MAX_CELL_CHARACTERS) for each in columns])
    head = f"{len(rows)} rows" + (f" with columns {names}" if columns else "")
    sample = [cut_text(_format_row(row), MAX_ROW_CHARACTERS) for row in rows[: spec.sample]]
    yield (
        (f"{cut_text(name, MAX_CELL_CHARACTERS)}: " if name else "")
        + head
        + _format_sample_note(len(sample))
    )
    yield from sample


def _format_sample_note(number: int) -> str:
    return f"; the first {number}:" if number else ""


def _format_row(row: JsonValue) -> str:
    if isinstance(row, dict):
        return encode_canonical({name: _cut_cell(value) for name, value in row.items()})
    return encode_canonical(_cut_cell(row))


def _cut_cell(value: JsonValue) -> JsonValue:
    encoded = value if isinstance(value, str) else encode_canonical(value)
    return cut_text(encoded, MAX_CELL_CHARACTERS) if len(encoded) > MAX_CELL_CHARACTERS else value


def _join_names(texts: Sequence[str]) -> str:
    """Join as many texts as fit, at least one, and the number of the others."""
    joined_count, remaining = 1, MAX_LIST_CHARACTERS - len(texts[0]) if texts else 0
    while (
        joined_count < len(texts) and (remaining := remaining - len(texts[joined_count]) - 2) >= 0
    ):
        joined_count += 1
    rest = [f"and {len(texts) - joined_count} more"] if len(texts) > joined_count else []
    return ", ".join((*texts[:joined_count], *rest))


def _format_beginning(result: str) -> str:
    lines = f"{number} lines, " if (number := _count_lines(result)) > 1 else ""
    beginning = result[:MAX_BEGINNING_CHARACTERS]
    return f"{lines}{len(result)} characters; the first {MAX_BEGINNING_CHARACTERS}:\n{beginning}"


MAX_WORK_RESULTS: Final = 16
"""Maximum number of results."""

MAX_WORK_RESULT_CHARACTERS: Final = 1_000
"""Maximum length of each result in characters, with its arguments."""


def format_turn_work(goals: Iterable[str], results: Iterable[str]) -> str | None:
    """Return the plan and the tool results of a turn as one text; None if it had neither.

    It is made once, when the turn is completed, and recorded. Plans of later turns include it
    before the reply, so each result is limited to the length that later turns get.
    """
    steps = [f"{number}. {goal}" for number, goal in enumerate(goals, 1)]
    lines = [*_iterate_result_lines([*results][-MAX_WORK_RESULTS:])]
    return "\n".join((*(("Planned:", *steps) if steps else ()), *lines)) or None


MAX_NAMED_OUTCOMES: Final = 128
"""Maximum number of tools that the outcomes of a turn name."""


def format_tool_outcomes(heading: str, outcomes: Sequence[tuple[str, str, str]]) -> str:
    """Format the tools of a turn, each with its key and its outcome, one a line."""
    named = outcomes[-MAX_NAMED_OUTCOMES:]
    more = [f"- {len(outcomes) - len(named)} before these"] if len(outcomes) > len(named) else []
    lines = [
        f"- {_format_line(tool)} (key {_format_line(key)}): {outcome}"
        for tool, key, outcome in named
    ]
    return "\n".join((heading, *more, *lines))


def _format_line(text: str) -> str:
    return cut_text(" ".join(text.split()), MAX_CELL_CHARACTERS)


def add_result_texts(outcomes: str, results: Sequence[str]) -> str:
    """Add the results that stay of a turn to its outcomes."""
    shown = [cut_text(each, MAX_WORK_RESULT_CHARACTERS) for each in results[-MAX_WORK_RESULTS:]]
    return "\n".join((outcomes, *shown))


_RESULTS_HEADING: Final = "Tools gave:"

_WORK_RESULT: Final = re.compile(r"^.*(?:\n  .*)*", re.MULTILINE)
"""A result in the work of a turn: all its lines but the first are indented."""

_UNANSWERED: Final = re.compile(r".*\n  (?:failed|lost|refused): ")
"""The beginning of the result of a tool that did not answer."""


def omit_answered_results(work: str) -> str:
    """Return the work of a turn without the results of tools that answered.

    This is the rule `results-1` of recorded prompts, whose result for a text never changes.
    """
    # A turn without a plan has nothing before the heading
    plan, heading, results = f"\n{work}".rpartition(f"\n{_RESULTS_HEADING}\n")
    if not heading:
        return work
    left = [_RESULTS_HEADING, *filter(_UNANSWERED.match, _WORK_RESULT.findall(results))]
    return "\n".join(filter(None, (plan[1:], *(left if left[1:] else ()))))


def _iterate_result_lines(results: list[str]) -> Iterator[str]:
    if results:
        yield _RESULTS_HEADING
    yield from (cut_text(result, MAX_WORK_RESULT_CHARACTERS) for result in results)
