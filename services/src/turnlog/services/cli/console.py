"""Output of the command line: answers on standard output, the rest on standard error.

Rich omits colour when the stream is not a terminal or `NO_COLOR` is set. Standard output carries
nothing but the answer, so that programs can read it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final, Literal

from pydantic import JsonValue
from rich.console import Console, RenderableType

from turnlog.contract.payload_models import ResponseModel

NON_TERMINAL_WIDTH: Final = 100
"""Columns to use when the output is not a terminal."""

_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""C1 control characters and DEL, which JSON allows but a terminal would act on."""


def create_output_console() -> Console:
    """Create the console for answers, on standard output."""
    return _create_console(stderr=False)


def create_error_console() -> Console:
    """Create the console for errors and progress, on standard error."""
    return _create_console(stderr=True)


def print_json(value: JsonValue) -> None:
    """Print one JSON value: on one line when piped, indented on a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    encoded = json.dumps(value, ensure_ascii=False, indent=indent)
    sys.stdout.write(encoded.translate(_JSON_ESCAPES) + "\n")
    sys.stdout.flush()


def _create_console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = NON_TERMINAL_WIDTH
    return console


OutputFormat = Literal["table", "json"]


def print_answer(answer: ResponseModel, rendering: RenderableType, output: OutputFormat) -> None:
    """Print an answer as a rendering or as JSON."""
    if output == "json":
        print_json(dump_answer(answer))
    else:
        create_output_console().print(rendering)


def dump_answer(answer: ResponseModel) -> dict[str, JsonValue]:
    return answer.model_dump(mode="json", by_alias=True)
