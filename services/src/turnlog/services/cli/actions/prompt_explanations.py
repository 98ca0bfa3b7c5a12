"""Why a turn was answered as it was, and what differs between two calls."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.client.prompt_reads import fetch_diff, fetch_explanation, fetch_prompt
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.views.diff_view import render_diff
from turnlog.services.cli.views.why_view import render_why


@dataclass(frozen=True, slots=True)
class ExplainedReply:
    """The explanation of a turn's reply with the exact prompt of the call."""

    why: TurnExplanation
    prompt: RecordedPromptView


async def print_explanation(
    service: ServiceClient, session: str, which: str, output: OutputFormat
) -> None:
    """Print why a turn, or one call of it, was answered as it was."""
    explanation = await fetch_explanation(service, session, which)
    found = ExplainedReply(explanation, await fetch_prompt(service, session, explanation.call))
    if output == "json":
        print_json(dump_explanation(found))
    else:
        create_output_console().print(render_why(found.why, found.prompt))


def dump_explanation(found: ExplainedReply) -> JsonValue:
    """Return an explanation as JSON, with the fields of `why` and of the prompt side by side."""
    document: dict[str, JsonValue] = TypeAdapter(ExplainedReply).dump_python(found, mode="json")
    prompt = document["prompt"]
    left = {"session", "turn", "call", "sequence"}
    rest = {k: v for k, v in prompt.items() if k not in left} if isinstance(prompt, dict) else {}
    own = document["why"]
    return {**own, **rest} if isinstance(own, dict) else rest


async def print_diff(
    service: ServiceClient,
    session: str,
    calls: tuple[str, str],
    other: str | None,
    output: OutputFormat,
) -> None:
    """Print what differs between two calls."""
    found = await fetch_diff(service, session, calls, other)
    if output == "json":
        print_json(TypeAdapter(CallDiff).dump_python(found, mode="json"))
    else:
        create_output_console().print(render_diff(found))
