"""Render receipts of erasures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.erasures.erasure_payloads import (
    ErasedSessionView,
    ErasureList,
    ErasureReceipt,
)
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_date_time,
    format_one_line,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING

STATUS_TEXTS: Final = {
    "planned": (WARNING, "nothing is erased yet: leave out --dry-run"),
    "begun": (
        WARNING,
        "it goes on by itself, once no turn of these sessions is open and no hold covers them",
    ),
    "erased": (GOOD, "nobody can open these words again"),
    "incomplete": (BAD, "some of these words can still be opened"),
}
"""Colour and meaning of each status."""

_PARTS: Final = {"text": "what was submitted with", "work": "what came of", "turn": "all of"}


def render_receipts(found: ErasureList) -> RenderableType:
    """Render the receipts of a session."""
    if not found.erasures:
        return Text("nothing of this session was erased", MUTED)
    return Group(*(render_receipt(each) for each in found.erasures))


def render_receipt(receipt: ErasureReceipt) -> RenderableType:
    """Render one receipt, or a plan."""
    colour, meaning = STATUS_TEXTS[receipt.status]
    title = Text(receipt.status, colour).append(f" · {meaning}", "default")
    if receipt.erasure:
        title.append(f" · event {receipt.erasure} by {escape_controls(receipt.by or '')}", MUTED)
    lines = [title, Text(format_one_line(f"because: {receipt.reason}"))]
    is_planned = receipt.status == "planned"
    for each in receipt.sessions:
        lines += _render_session(each, "--with-replies" if is_planned else "--of work erases one")
    if not is_planned:
        lines.append(Text("not reached from here:", MUTED))
        lines += [Text(f"  {each}", MUTED) for each in receipt.kept_elsewhere]
    return Group(*lines)


def _render_session(reached: ErasedSessionView, way: str) -> Iterator[Text]:
    """Yield the lines of a session; `way` is how replies that stay can be erased."""
    what = ", ".join(f"{_PARTS[each.of]} turn {each.turn}" for each in reached.turns)
    yield Text(reached.session, "bold").append(f" · {what or 'all of it'}", "default")
    yield Text(
        f"  {format_count(len(reached.events), 'event')} and "
        f"{format_count(len(reached.calls), 'prompt')}: {join_values(reached.calls) or 'none'}"
    )
    if reached.repeating_turns:
        yield Text(f"  {describe_repeating(reached.repeating_turns)}: {way}", WARNING)
    if reached.left:
        yield Text(f"  still open: events {join_values(reached.left)}", BAD)
    if reached.generation and reached.ended_at:
        yield Text(f"  {describe_back_ups(reached.generation, reached.ended_at)}", MUTED)


def describe_repeating(turns: Sequence[int]) -> str:
    """Say whose replies stay although their prompts had the words."""
    listed = join_values(turns)
    is_one = len(turns) == 1
    what = f"the reply of turn {listed} stays" if is_one else f"the replies of turns {listed} stay"
    return f"{what}, and may repeat it"


def describe_back_ups(generation: int, ended_at: str) -> str:
    """Say which back-ups of the keys still open, and until when."""
    copies = f"a back-up of its keys from before {format_date_time(ended_at)}"
    return f"{copies} opens until generation {generation} is retired"


def join_values(values: Sequence[object]) -> str:
    """Return values in one line."""
    return ", ".join(map(str, values))
