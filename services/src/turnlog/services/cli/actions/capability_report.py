"""What the server of a model takes, asked and printed for people or programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_json,
)
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING
from turnlog.services.platform.process_settings import WorkerSettings
from turnlog.services.worker.model.model_check import (
    QUESTION_COUNT,
    Capability,
    QuestionResult,
    check_model,
    describe_dialect,
)
from turnlog.services.worker.model.model_router import ModelRouter

_MARKS: Final[Mapping[Capability, tuple[str, str]]] = {
    "taken": ("✓ ", GOOD),
    "refused": ("✗ ", BAD),
    "unknown": ("? ", WARNING),
}


async def print_model_check(model: str, output: OutputFormat) -> bool:
    """Ask the server of a model and print what it takes; return whether all of it is known."""
    settings = read_settings(WorkerSettings, os.environ)
    router = ModelRouter(
        settings.model_adapter,
        os.environ,
        timeouts_by_model=settings.model_timeouts,
        scripts=settings.scripts,
    )
    asks = f"{model} is asked at most {QUESTION_COUNT} small questions"
    create_error_console().print(Text(escape_controls(asks), MUTED))
    try:
        results = [each async for each in check_model(model, router)]
    finally:
        await router.close()
    dialect = describe_dialect(results)
    if output == "json":
        found: list[JsonValue] = [asdict(each) for each in results]
        print_json({"model": model, "results": found, "dialect": dialect})
    else:
        create_output_console().print(_render_check(model, results, dialect))
    return all(each.capability != "unknown" for each in results) and (
        results[0].capability == "taken"
    )


def _render_check(
    model: str, results: Sequence[QuestionResult], dialect: Mapping[str, Any]
) -> RenderableType:
    lines = [*map(_render_result, results)]
    if results[0].capability == "taken":
        lines += [Text("\nfor the file of dialects:", MUTED), *_render_dialect(model, dialect)]
    return Group(*lines)


def _render_result(result: QuestionResult) -> Text:
    line = Text().append(*_MARKS[result.capability]).append(result.meaning)
    return line.append(f"  {result.code}", MUTED) if result.code else line


def _render_dialect(model: str, dialect: Mapping[str, Any]) -> Iterator[Text]:
    if not dialect:
        yield Text(f"{json.dumps(model)}: {{}}")
        return
    yield Text(f"{json.dumps(model)}:")
    yield from (Text(f"  {name}: {json.dumps(value)}") for name, value in dialect.items())
