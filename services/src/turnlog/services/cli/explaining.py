from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, TypeAdapter

from turnlog.projections.audit.diff import CallDiff
from turnlog.projections.audit.why import TurnExplanation
from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.diff import render_diff
from turnlog.services.cli.screens.why import render_why
from turnlog.services.cli.show import OutputFormat
from turnlog.services.gateway.payloads.prompts import RecordedPromptView


@dataclass(frozen=True, slots=True)
class ExplainedReply:
    """The explanation of a turn's reply with the exact prompt of the call."""

    why: TurnExplanation
    prompt: RecordedPromptView


_EXPLANATION_ADAPTER: Final = TypeAdapter(ExplainedReply)


async def print_explanation(reader: ServiceReader, session: str, which: str, output: OutputFormat) -> None:
    """Print why a turn, or one call of it, was answered as it was."""
    why = await reader.fetch_explanation(session, which)
    found = ExplainedReply(why, await reader.fetch_prompt(session, why.call))
    if output == "json":
        print_json(dump_explanation(found))
    else:
        create_output_console().print(render_why(found.why, found.prompt))


def dump_explanation(found: ExplainedReply) -> JsonValue:
    """Return an explanation as JSON, with the fields of `why` and of the prompt side by side."""
    told: dict[str, JsonValue] = _EXPLANATION_ADAPTER.dump_python(found, mode="json")
    prompt = told["prompt"]
    left = {"session", "turn", "call", "sequence"}
    rest = {k: v for k, v in prompt.items() if k not in left} if isinstance(prompt, dict) else {}
    own = told["why"]
    return {**own, **rest} if isinstance(own, dict) else rest


async def print_diff(
    reader: ServiceReader, session: str, calls: tuple[str, str], other: str | None, output: OutputFormat
) -> None:
    """Print what differs between two calls."""
    found = await reader.fetch_diff(session, calls, other)
    if output == "json":
        print_json(TypeAdapter(CallDiff).dump_python(found, mode="json"))
    else:
        create_output_console().print(render_diff(found))
