from __future__ import annotations

from collections.abc import Sequence

from turnlog.events.errors import Refused
from turnlog.services.cli.given import parse_json_pairs
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.prompt import render_window
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.asked import WindowPreviewRequest


def build_preview_request(
    at: int | None,
    clock: str | None,
    call: str | None,
    *,
    text: str | None,
    inputs: Sequence[str] | None,
    budget: int | None,
    model: str | None,
) -> WindowPreviewRequest:
    """Build the request for a window preview; raises `Refused` for `--at` or `--clock`."""
    for name, given_too in (("--at", at), ("--clock", clock)):
        if given_too is not None:
            fix = f"leave out {name}, or all of --text, --input, --budget and --model"
            raise Refused("bad-option", "what is tried is tried now", field=name, fix=fix)
    given = parse_json_pairs(inputs or (), "--input")
    return WindowPreviewRequest(text=text, inputs=given, call=call, budget=budget, model=model)


async def print_preview(reader: ServiceReader, session: str, request: WindowPreviewRequest, output: OutputFormat) -> None:
    """Print the window of a turn that nobody submitted."""
    window = await reader.preview_window(session, request)
    print_answer(window, render_window(window), output)
