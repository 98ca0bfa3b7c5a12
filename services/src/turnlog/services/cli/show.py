"""The output of the reading commands: fetch from a reader, then print a rendering or JSON.

The JSON of a command is the HTTP answer unchanged, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import JsonValue
from rich.console import RenderableType

from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.reader.reader import Query, Reader
from turnlog.services.cli.screens.blueprints import blueprint_table
from turnlog.services.cli.screens.growth import growth_screen
from turnlog.services.cli.screens.history import conversation
from turnlog.services.cli.screens.prompt import prompt_screen, window_screen
from turnlog.services.cli.screens.segments import segment_screen, segment_table
from turnlog.services.cli.screens.sessions import session_list, summary
from turnlog.services.gateway.payloads.calls import CallList
from turnlog.services.gateway.payloads.closed import Answer

Form = Literal["table", "json"]
MOST_FORKS: Final = 100
"""The most forks shown with a session; `turnlog sessions --origin` lists all."""


async def show_sessions(reader: Reader, query: Query, form: Form) -> None:
    page = await reader.sessions(query)
    shown(page, session_list(page), form)


async def show_session(reader: Reader, session: str, at: int | None, form: Form) -> None:
    """Print a session with its turns, its calls and its forks; JSON merges the four answers."""
    facts, history, calls = (
        await reader.session(session, at),
        await reader.history(session, at),
        _until(await reader.calls(session), at),
    )
    forks = (await reader.sessions({"origin": session, "limit": MOST_FORKS})).sessions
    if form == "json":
        print_json(
            {
                **_plain(facts),
                "turns": _plain(history)["turns"],
                "calls": _plain(calls)["calls"],
                "forks": [_plain(fork) for fork in forks],
            }
        )
    else:
        answers().print(summary(facts, history, calls, forks))


def _until(calls: CallList, at: int | None) -> CallList:
    """Drop calls made after sequence `at`; the others still show their later attempts."""
    made = tuple(call for call in calls.calls if at is None or call.sequence <= at)
    return calls.model_copy(update={"calls": made})


async def show_history(
    reader: Reader, session: str, at: int | None, phase: str | None, form: Form
) -> None:
    """Print the conversation, or the part of it that belongs to one phase."""
    history = await reader.history(session, at, phase)
    shown(history, conversation(history), form)


async def show_window(
    reader: Reader, session: str, call: str | None, at: int | None, clock: str | None, form: Form
) -> None:
    """Print the window of a call, now or at a sequence."""
    window = await reader.window(session, call, at, clock)
    shown(window, window_screen(window), form)


async def show_growth(reader: Reader, query: Query, form: Form) -> None:
    """Print the token counts by component and call."""
    growth = await reader.growth(query)
    shown(growth, growth_screen(growth, str(query["group_by"])), form)


async def show_prompt(reader: Reader, session: str, call: str, form: Form) -> None:
    """Print the exact prompt of a call."""
    prompt = await reader.prompt(session, call)
    shown(prompt, prompt_screen(prompt), form)


async def show_segments(reader: Reader, query: Query, form: Form) -> None:
    page = await reader.segments(query)
    shown(page, segment_table(page), form)


async def show_segment(reader: Reader, segment: int, form: Form) -> None:
    """Print a segment with all of its versions."""
    found = await reader.segment(segment)
    shown(found, segment_screen(found), form)


async def show_blueprints(reader: Reader, form: Form) -> None:
    blueprints = await reader.blueprints()
    shown(blueprints, blueprint_table(blueprints), form)


def shown(answer: Answer, screen: RenderableType, form: Form) -> None:
    """Print an answer as a rendering or as JSON."""
    if form == "json":
        print_json(_plain(answer))
    else:
        answers().print(screen)


def _plain(answer: Answer) -> dict[str, JsonValue]:
    return answer.model_dump(mode="json")
