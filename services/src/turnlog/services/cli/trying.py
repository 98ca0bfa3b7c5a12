from __future__ import annotations

from collections.abc import Sequence

from turnlog.events.errors import Refused
from turnlog.services.cli.given import named_json
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.prompt import window_screen
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.asked import TryForm


def trial(
    at: int | None,
    clock: str | None,
    call: str | None,
    *,
    text: str | None,
    inputs: Sequence[str] | None,
    budget: int | None,
    model: str | None,
) -> TryForm:
    """Build the request for a window preview; raises `Refused` for `--at` or `--clock`."""
    for name, given_too in (("--at", at), ("--clock", clock)):
        if given_too is not None:
            fix = f"leave out {name}, or all of --text, --input, --budget and --model"
            raise Refused("bad-option", "what is tried is tried now", field=name, fix=fix)
    given = named_json(inputs or (), "--input")
    return TryForm(text=text, inputs=given, call=call, budget=budget, model=model)


async def show_tried(reader: Reader, session: str, asked: TryForm, form: Form) -> None:
    """Print the window of a turn that nobody submitted."""
    window = await reader.tried(session, asked)
    shown(window, window_screen(window), form)
