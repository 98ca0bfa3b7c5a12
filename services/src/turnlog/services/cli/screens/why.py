from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from turnlog.events.content import Content, Plain
from turnlog.projections.audit.making import CallMade
from turnlog.projections.audit.why import Standing, Why, Withheld
from turnlog.services.cli.screens.bars import token_bars
from turnlog.services.cli.screens.history import REPLY, SAID
from turnlog.services.cli.screens.layers import traced_prompt
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.missing import left_out, steps
from turnlog.services.cli.screens.origins import caused
from turnlog.services.cli.screens.palette import BAD, FAMILIES, GOOD, QUIET
from turnlog.services.cli.screens.prompt import proof
from turnlog.services.cli.screens.spelling import counted, harmless
from turnlog.services.gateway.payloads.prompts import PromptView

_WIDTH: Final = 9
"""Columns of the labels."""
_HIDDEN: Final = "(its text is sealed or erased)"


def why_screen(why: Why, prompt: PromptView) -> RenderableType:
    """Render everything recorded about one turn's reply."""
    return Group(*_outcome(why, prompt), Text(), *_told(why, prompt), proof(prompt))


def _outcome(why: Why, prompt: PromptView) -> Iterator[RenderableType]:
    title = Text().append(f"why turn {why.turn} was answered so", "bold")
    yield title.append(f"  {why.session}", QUIET)
    if why.said is not None:
        yield beside("asked", _text(why.said), SAID, _WIDTH)
    colour = BAD if why.withheld else REPLY
    yield beside("reply", _text(why.reply) if why.reply else why.status, colour, _WIDTH)
    yield Text()
    yield _facts(why, prompt)


def _text(content: Content) -> str:
    return content.text if isinstance(content, Plain) else _HIDDEN


def _facts(why: Why, prompt: PromptView) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=QUIET, justify="right", width=_WIDTH + 1)
    grid.add_column(overflow="fold")
    if why.started:
        grid.add_row("started", Text("by itself  ").append_text(caused(why.started)))
    else:
        grid.add_row("turn", caused(why.asked))
    call = Text(f"{why.call} · {prompt.manifest.kind} · {prompt.model}  ")
    grid.add_row("call", call.append_text(caused(why.fixed)))
    others = [_other(made) for made in why.calls if made.call != why.call]
    for place, other in enumerate(others):
        grid.add_row("" if place else "beside", other)
    if why.standing:
        grid.add_row("phase", _standing(why.standing))
    grid.add_row("safety", _verdict(why.withheld))
    if why.superseded:
        grid.add_row("instead of", f"call {', '.join(why.superseded)}, whose sources had changed")
    for place, each in enumerate(why.consequences):
        told = Text(harmless(each.what)).append("  ").append_text(caused(each.by))
        grid.add_row("" if place else "led to", told)
    return grid


def _other(made: CallMade) -> Text:
    """Render another call of the turn and its result."""
    line = Text(f"{made.call} · {made.kind} · {counted(made.tokens, 'token')} ")
    gave = harmless(", ".join(made.gave)) or "nothing"
    return line.append(f"→ {gave}  ", QUIET).append_text(caused(made.fixed))


def _standing(standing: Standing) -> Text:
    exchanges = f", after {counted(standing.exchanges, 'exchange')}"
    line = Text(standing.phase, FAMILIES["phase"]).append(exchanges, "default")
    by = f", by {standing.signal}" if standing.signal else ""
    by += f", sees {', '.join(standing.shared)}" if standing.shared else ""
    by += f", not {', '.join(standing.hidden)}" if standing.hidden else ""
    return line.append(f"{by}  ", QUIET).append_text(caused(standing.since))


def _verdict(withheld: Withheld | None) -> Text:
    if withheld is None:
        return Text("✓ ", GOOD).append("nothing was withheld", "default")
    line = Text(f"✗ withheld by {withheld.rule}", BAD)
    line.append(f": {harmless(withheld.reason)}", "default")
    line.append("\n").append_text(caused(withheld.by))
    return line.append(" · an auditor reads it by `turnlog withheld`" * withheld.kept, QUIET)


def _told(why: Why, prompt: PromptView) -> Iterator[RenderableType]:
    yield Rule(Text("what it was told", "bold"), align="left", style=QUIET)
    yield from traced_prompt(prompt, why.parts)
    yield Text()
    yield token_bars(prompt.manifest)
    if why.steps:
        yield Text("\ncut to fit", QUIET)
        yield steps(why)
    absent = [each for each in why.parts if not each.part.kept]
    if absent:
        yield Text("\nleft out", QUIET)
        yield left_out(absent)
    yield Text()
