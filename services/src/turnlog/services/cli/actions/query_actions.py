"""Reading commands whose output is more than one answer, and the requests that options make up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, TypeAdapter
from rich.text import Text

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.api.call_payloads import CallList
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.api.requests import AssembleRequest, WindowPreviewRequest
from turnlog.services.cli.client.service_reader import (
    EventQuery,
    ServiceReader,
    UnreadableLine,
)
from turnlog.services.cli.console import (
    OutputFormat,
    create_output_console,
    dump_answer,
    print_json,
)
from turnlog.services.cli.key_value_args import parse_typed_pairs
from turnlog.services.cli.views.diff_view import render_diff
from turnlog.services.cli.views.event_view import render_event_line
from turnlog.services.cli.views.session_view import (
    render_session,
)
from turnlog.services.cli.views.text_format import format_one_line
from turnlog.services.cli.views.theme import BAD
from turnlog.services.cli.views.why_view import render_why

MAX_FORKS: Final = 100
"""The most forks shown with a session; `turnlog sessions --origin` lists all."""


async def print_session(
    reader: ServiceReader, session: str, at: int | None, output: OutputFormat
) -> None:
    """Print a session with its turns, its calls and its forks; JSON merges the four answers."""
    facts, history, calls = (
        await reader.fetch_session(session, at),
        await reader.fetch_history(session, at),
        _drop_later_calls(await reader.list_calls(session), at),
    )
    forks = await reader.list_sessions({"origin": session, "limit": MAX_FORKS})
    if output == "json":
        print_json(
            {
                **dump_answer(facts),
                "turns": dump_answer(history)["turns"],
                "calls": dump_answer(calls)["calls"],
                "forks": dump_answer(forks)["sessions"],
            }
        )
    else:
        create_output_console().print(render_session(facts, history, calls, forks.sessions))


def _drop_later_calls(calls: CallList, at: int | None) -> CallList:
    """Drop calls made after sequence `at`; the others still show their later attempts."""
    made = tuple(call for call in calls.calls if at is None or call.sequence <= at)
    return calls.model_copy(update={"calls": made})


def build_preview_request(
    at: int | None,
    clock: str | None,
    call: str | None,
    *,
    text: str | None,
    inputs: Mapping[str, JsonValue],
    budget: int | None,
    model: str | None,
) -> WindowPreviewRequest:
    """Build the request for a window preview; raises `Refused` for `--at` or `--clock`."""
    for name, given_too in (("--at", at), ("--clock", clock)):
        if given_too is not None:
            fix = f"leave out {name}, or all of --text, --input, --budget and --model"
            raise Refused(
                "bad-option", "a preview shows the session as it is now", field=name, fix=fix
            )
    return WindowPreviewRequest(
        text=text, inputs=dict(inputs), call=call, budget=budget, model=model
    )


async def parse_attributes(
    reader: ServiceReader, blueprint: str, pairs: Sequence[str]
) -> dict[str, JsonValue]:
    """Parse attributes by the types that a blueprint gives them.

    Raises `Refused` for an unreadable pair or an unknown blueprint.
    """
    if not pairs:
        return {}
    schemas = await reader.fetch_blueprint(blueprint)
    return parse_typed_pairs(pairs, "--attribute", schemas.attributes)


async def parse_inputs(
    reader: ServiceReader, blueprint: str, pairs: Sequence[str] | None
) -> dict[str, JsonValue]:
    """Parse inputs by the types that a blueprint gives them; raises as `parse_attributes`."""
    if not pairs:
        return {}
    schemas = await reader.fetch_blueprint(blueprint)
    return parse_typed_pairs(pairs, "--input", schemas.inputs)


async def parse_session_inputs(
    reader: ServiceReader, session: str, pairs: Sequence[str] | None
) -> dict[str, JsonValue]:
    """Parse inputs by the types that the blueprint of a session gives them."""
    if not pairs:
        return {}
    return await parse_inputs(reader, (await reader.fetch_session(session)).blueprint, pairs)


def build_assemble_request(
    blueprint: str,
    attributes: Mapping[str, JsonValue],
    profile: str | None,
    call: str | None,
    *,
    text: str | None,
    inputs: Mapping[str, JsonValue],
    budget: int | None,
    model: str | None,
) -> AssembleRequest:
    """Build the request for a prompt without a session; raises `Refused` for an unreadable pair."""
    return AssembleRequest(
        blueprint=blueprint,
        attributes=dict(attributes),
        profile=profile,
        call=call,
        text=text,
        inputs=dict(inputs),
        budget=budget,
        model=model,
    )


@dataclass(frozen=True, slots=True)
class ExplainedReply:
    """The explanation of a turn's reply with the exact prompt of the call."""

    why: TurnExplanation
    prompt: RecordedPromptView


_EXPLANATION_ADAPTER: Final = TypeAdapter(ExplainedReply)


async def print_explanation(
    reader: ServiceReader, session: str, which: str, output: OutputFormat
) -> None:
    """Print why a turn, or one call of it, was answered as it was."""
    explanation = await reader.fetch_explanation(session, which)
    found = ExplainedReply(explanation, await reader.fetch_prompt(session, explanation.call))
    if output == "json":
        print_json(dump_explanation(found))
    else:
        create_output_console().print(render_why(found.why, found.prompt))


def dump_explanation(found: ExplainedReply) -> JsonValue:
    """Return an explanation as JSON, with the fields of `why` and of the prompt side by side."""
    document: dict[str, JsonValue] = _EXPLANATION_ADAPTER.dump_python(found, mode="json")
    prompt = document["prompt"]
    left = {"session", "turn", "call", "sequence"}
    rest = {k: v for k, v in prompt.items() if k not in left} if isinstance(prompt, dict) else {}
    own = document["why"]
    return {**own, **rest} if isinstance(own, dict) else rest


async def print_diff(
    reader: ServiceReader,
    session: str,
    calls: tuple[str, str],
    other: str | None,
    output: OutputFormat,
) -> None:
    """Print what differs between two calls."""
    found = await reader.fetch_diff(session, calls, other)
    if output == "json":
        print_json(TypeAdapter(CallDiff).dump_python(found, mode="json"))
    else:
        create_output_console().print(render_diff(found))


async def print_events(
    reader: ServiceReader, query: EventQuery, output: OutputFormat, *, live: bool
) -> None:
    """Print one line per event; with `live`, wait for new events."""
    events = reader.watch_events(query) if live and reader.is_live else reader.read_events(query)
    async with aclosing(events):
        async for event in events:
            if output == "json":
                print_json(
                    json.loads(
                        event.json_text if isinstance(event, UnreadableLine) else event.stored
                    )
                )
            else:
                _print_event(event, with_session=query.session is None)


def _print_event(event: RecordedEvent | UnreadableLine, *, with_session: bool) -> None:
    console = create_output_console()
    line = (
        Text(format_one_line(f"unreadable {event.json_text}"), BAD)
        if isinstance(event, UnreadableLine)
        else render_event_line(event, with_session=with_session)
    )
    # On a terminal a long line ends at the edge; piped output has the whole line.
    soft_wrap = not console.is_terminal
    console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=soft_wrap)
