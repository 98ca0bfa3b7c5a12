from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, TypeAdapter

from turnlog.projections.audit.diff import Diff
from turnlog.projections.audit.why import Why
from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.diff import diff_screen
from turnlog.services.cli.screens.why import why_screen
from turnlog.services.cli.show import Form
from turnlog.services.gateway.payloads.prompts import PromptView


@dataclass(frozen=True, slots=True)
class Explained:
    """The explanation of a turn's reply with the exact prompt of the call."""

    why: Why
    prompt: PromptView


_EXPLAINED: Final = TypeAdapter(Explained)


async def explain(reader: Reader, session: str, which: str, form: Form) -> None:
    """Print why a turn, or one call of it, was answered as it was."""
    why = await reader.why(session, which)
    found = Explained(why, await reader.prompt(session, why.call))
    if form == "json":
        print_json(plain(found))
    else:
        answers().print(why_screen(found.why, found.prompt))


def plain(found: Explained) -> JsonValue:
    """Return an explanation as JSON, with the fields of `why` and of the prompt side by side."""
    told: dict[str, JsonValue] = _EXPLAINED.dump_python(found, mode="json")
    prompt = told["prompt"]
    left = {"session", "turn", "call", "sequence"}
    rest = {k: v for k, v in prompt.items() if k not in left} if isinstance(prompt, dict) else {}
    own = told["why"]
    return {**own, **rest} if isinstance(own, dict) else rest


async def show_diff(
    reader: Reader, session: str, calls: tuple[str, str], other: str | None, form: Form
) -> None:
    """Print what differs between two calls."""
    found = await reader.diff(session, calls, other)
    if form == "json":
        print_json(TypeAdapter(Diff).dump_python(found, mode="json"))
    else:
        answers().print(diff_screen(found))
