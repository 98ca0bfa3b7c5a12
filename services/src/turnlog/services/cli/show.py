"""The output of the reading commands: fetch from a reader, then print a rendering or JSON.

The JSON of a command is the HTTP answer unchanged, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import JsonValue
from rich.console import RenderableType

from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.reader.reader import QueryParameters, ServiceReader
from turnlog.services.cli.screens.blueprints import render_blueprints
from turnlog.services.cli.screens.growth import render_growth
from turnlog.services.cli.screens.history import render_conversation
from turnlog.services.cli.screens.prompt import render_prompt, render_window
from turnlog.services.cli.screens.segments import render_segment, render_segments
from turnlog.services.cli.screens.sessions import render_sessions, render_session
from turnlog.services.gateway.payloads.calls import CallList
from turnlog.services.gateway.payloads.closed import ResponseModel

OutputFormat = Literal["table", "json"]
MAX_FORKS: Final = 100
"""The most forks shown with a session; `turnlog sessions --origin` lists all."""


async def print_sessions(reader: ServiceReader, query: QueryParameters, output: OutputFormat) -> None:
    page = await reader.list_sessions(query)
    print_answer(page, render_sessions(page), output)


async def print_session(reader: ServiceReader, session: str, at: int | None, output: OutputFormat) -> None:
    """Print a session with its turns, its calls and its forks; JSON merges the four answers."""
    facts, history, calls = (
        await reader.fetch_session(session, at),
        await reader.fetch_history(session, at),
        _drop_later_calls(await reader.list_calls(session), at),
    )
    forks = (await reader.list_sessions({"origin": session, "limit": MAX_FORKS})).sessions
    if output == "json":
        print_json(
            {
                **dump_answer(facts),
                "turns": dump_answer(history)["turns"],
                "calls": dump_answer(calls)["calls"],
                "forks": [dump_answer(fork) for fork in forks],
            }
        )
    else:
        create_output_console().print(render_session(facts, history, calls, forks))


def _drop_later_calls(calls: CallList, at: int | None) -> CallList:
    """Drop calls made after sequence `at`; the others still show their later attempts."""
    made = tuple(call for call in calls.calls if at is None or call.sequence <= at)
    return calls.model_copy(update={"calls": made})


async def print_history(
    reader: ServiceReader, session: str, at: int | None, phase: str | None, output: OutputFormat
) -> None:
    """Print the conversation, or the part of it that belongs to one phase."""
    history = await reader.fetch_history(session, at, phase)
    print_answer(history, render_conversation(history), output)


async def print_window(
    reader: ServiceReader, session: str, call: str | None, at: int | None, clock: str | None, output: OutputFormat
) -> None:
    """Print the window of a call, now or at a sequence."""
    window = await reader.fetch_window(session, call, at, clock)
    print_answer(window, render_window(window), output)


async def print_growth(reader: ServiceReader, query: QueryParameters, output: OutputFormat) -> None:
    """Print the token counts by component and call."""
    growth = await reader.fetch_growth(query)
    print_answer(growth, render_growth(growth, str(query["group_by"])), output)


async def print_prompt(reader: ServiceReader, session: str, call: str, output: OutputFormat) -> None:
    """Print the exact prompt of a call."""
    prompt = await reader.fetch_prompt(session, call)
    print_answer(prompt, render_prompt(prompt), output)


async def print_segments(reader: ServiceReader, query: QueryParameters, output: OutputFormat) -> None:
    page = await reader.list_segments(query)
    print_answer(page, render_segments(page), output)


async def print_segment(reader: ServiceReader, segment: int, output: OutputFormat) -> None:
    """Print a segment with all of its versions."""
    found = await reader.fetch_segment(segment)
    print_answer(found, render_segment(found), output)


async def print_blueprints(reader: ServiceReader, output: OutputFormat) -> None:
    blueprints = await reader.list_blueprints()
    print_answer(blueprints, render_blueprints(blueprints), output)


def print_answer(answer: ResponseModel, rendering: RenderableType, output: OutputFormat) -> None:
    """Print an answer as a rendering or as JSON."""
    if output == "json":
        print_json(dump_answer(answer))
    else:
        create_output_console().print(rendering)


def dump_answer(answer: ResponseModel) -> dict[str, JsonValue]:
    return answer.model_dump(mode="json")
