"""What the reading commands show: asked of a reader, laid out for people or handed to programs.

A program gets the HTTP answer as it is, so what is known of one is known of the other.
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
"""Forks of a session that are shown; `turnlog sessions --origin` lists all."""


async def show_sessions(reader: Reader, query: Query, form: Form) -> None:
    """List sessions."""
    page = await reader.sessions(query)
    shown(page, session_list(page), form)


async def show_session(reader: Reader, session: str, at: int | None, form: Form) -> None:
    """Show one session with its turns, its calls and what came of it elsewhere."""
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
    """Leave out calls that had not been made; of the others it is told what came of them since."""
    made = tuple(call for call in calls.calls if at is None or call.sequence <= at)
    return calls.model_copy(update={"calls": made})


async def show_history(
    reader: Reader, session: str, at: int | None, phase: str | None, form: Form
) -> None:
    """Show the conversation, or what was said of it in one phase."""
    history = await reader.history(session, at, phase)
    shown(history, conversation(history), form)


async def show_window(
    reader: Reader, session: str, call: str | None, at: int | None, clock: str | None, form: Form
) -> None:
    """Show what a call would see, or would have seen."""
    window = await reader.window(session, call, at, clock)
    shown(window, window_screen(window), form)


async def show_growth(reader: Reader, query: Query, form: Form) -> None:
    """Show how context grows."""
    growth = await reader.growth(query)
    shown(growth, growth_screen(growth, str(query["group_by"])), form)


async def show_prompt(reader: Reader, session: str, call: str, form: Form) -> None:
    """Show the exact prompt of a call."""
    prompt = await reader.prompt(session, call)
    shown(prompt, prompt_screen(prompt), form)


async def show_segments(reader: Reader, query: Query, form: Form) -> None:
    """List segments."""
    page = await reader.segments(query)
    shown(page, segment_table(page), form)


async def show_segment(reader: Reader, segment: int, form: Form) -> None:
    """Show one segment with everything it ever said."""
    found = await reader.segment(segment)
    shown(found, segment_screen(found), form)


async def show_blueprints(reader: Reader, form: Form) -> None:
    """List the blueprints there are."""
    blueprints = await reader.blueprints()
    shown(blueprints, blueprint_table(blueprints), form)


def shown(answer: Answer, screen: RenderableType, form: Form) -> None:
    """Print an answer, laid out or as it is."""
    if form == "json":
        print_json(_plain(answer))
    else:
        answers().print(screen)


def _plain(answer: Answer) -> dict[str, JsonValue]:
    return answer.model_dump(mode="json")
