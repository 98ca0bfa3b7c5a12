from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.call import Cost
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Manifest,
    Part,
    Source,
)
from turnlog.projections.window.request import ChatMessage
from turnlog.services.cli.screens.bars import token_bars
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY, layer_colours
from turnlog.services.cli.screens.passages import Passage, passages
from turnlog.services.cli.screens.spelling import money, short
from turnlog.services.gateway.payloads.prompts import MessageView, PromptView, WayView, WindowView


def prompt_screen(prompt: PromptView) -> RenderableType:
    """Render the exact prompt of a call and whether it is proven to be the recorded one."""
    call = Text().append(f"prompt of call {prompt.call}", "bold")
    call.append(f"  {prompt.session} · {prompt.model} · {prompt.manifest.kind}", QUIET)
    return Group(call, *_body(prompt.messages, prompt.manifest), proof(prompt))


def shown_to_model(prompt: PromptView) -> RenderableType:
    """Render only the messages of a call, for use inside a replayed conversation."""
    tokens = f"  {prompt.model} · {prompt.manifest.tokens:,} tokens"
    head = Text().append(f"the model is shown, in call {prompt.call}", "bold").append(tokens, QUIET)
    said = [ChatMessage(view.role, view.content) for view in prompt.messages]
    return Group(head, prompt_texts(said, prompt.manifest) if said else proof(prompt), Text())


def window_screen(window: WindowView) -> RenderableType:
    """Render the prompt that a call would have."""
    call = Text().append(f"window of the next {window.call}", "bold")
    at = f"  {window.session} · {window.model} · at sequence {window.sequence}"
    return Group(
        call.append(at, QUIET), *_body(window.messages, window.manifest), _cost(window.cost)
    )


def _cost(cost: Cost) -> Text:
    line = Text(f"{money(cost.micro_dollars)} for the prompt", "bold")
    found = {"fallback": "at a guess", "normalised": "by its name without region"}
    how = found.get(cost.price, "by its name")
    return line.append(f" · {how}, {cost.table} · the reply comes on top", QUIET)


def proof(prompt: PromptView) -> RenderableType:
    """Render for each way of reproduction whether it yields the recorded prompt."""
    ways = Table.grid(padding=(0, 2))
    ways.add_column()
    ways.add_column(no_wrap=True)
    ways.add_column(overflow="fold")
    for name, way in (("by reference", prompt.reference), ("by assembly", prompt.assembly)):
        ways.add_row(_way(way), Text(name, "bold"), Text(_come_to(way)))
    ways.add_row("", Text("recorded", "bold"), Text(prompt.digest, QUIET))
    return ways


def _way(way: WayView) -> Text:
    colour = {"reproduced": GOOD, "unreproducible": WARY, "failed": BAD}[way.outcome]
    return Text({"reproduced": "✓", "unreproducible": "-", "failed": "✗"}[way.outcome], colour)


def _come_to(way: WayView) -> str:
    if way.fault is None:
        return "byte for byte the recorded one"
    apart = "not reproducible by this version: " if way.outcome == "unreproducible" else ""
    return f"{apart}{way.fault.where}: {way.fault.detail}"


def _body(views: Sequence[MessageView], manifest: Manifest) -> Iterator[RenderableType]:
    if views:
        yield prompt_texts([ChatMessage(view.role, view.content) for view in views], manifest)
    yield Text()
    yield part_table(manifest)
    yield Text()
    yield token_bars(manifest)
    absent = left_out(manifest)
    if absent is not None:
        yield Text("\nleft out", QUIET)
        yield absent
    yield Text()


def prompt_texts(messages: Sequence[ChatMessage], manifest: Manifest) -> RenderableType:
    """Render the messages layer by layer."""
    colours = layer_colours(manifest.parts)
    width = max((len(layer) for layer in colours), default=0)
    return Group(*_messages(passages(messages, manifest), colours, width))


def _messages(
    said: Sequence[Passage], colours: Mapping[str, str], width: int
) -> Iterator[RenderableType]:
    shown = -1
    for passage in said:
        if passage.message != shown:
            shown = passage.message
            yield Text(f"{shown + 1} {passage.role}", "bold")
        colour = colours[passage.part.layer]
        yield beside(passage.part.layer, passage.drawn, colour, width, colour)


def part_table(manifest: Manifest) -> Table:
    """Render the included parts with source, characters and tokens."""
    colours = layer_colours(manifest.parts)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=QUIET, pad_edge=False)
    table.add_column("layer", no_wrap=True)
    table.add_column("component", no_wrap=True)
    table.add_column("source", overflow="fold")
    table.add_column("characters", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    for part in manifest.parts:
        if part.kept:
            layer = Text(part.layer, colours[part.layer])
            numbers = (f"{part.characters:,}", f"{part.tokens:,}")
            table.add_row(layer, part.component, source(part.source), *numbers)
    return table


def left_out(manifest: Manifest) -> RenderableType | None:
    """Render the parts that were left out and why, or return None if there are none."""
    absent = [part for part in manifest.parts if not part.kept]
    if not absent:
        return None
    table = Table.grid(padding=(0, 2))
    for part in absent:
        where = source(part.source) if part.source else Text("")
        table.add_row(Text(part.layer, WARY), Text(part.treatment), Text(_why(part)), where)
    return table


def _why(part: Part) -> str:
    if part.rule:
        return part.rule
    return "it had nothing to say" if part.treatment == "absent" else ""


def source(origin: Source | None) -> Text:
    """Render the source of a part's text."""
    match origin:
        case None:
            return Text("nowhere", QUIET)
        case FromBlob(digest=digest, path=path):
            return Text(path).append(f"  blob {short(digest)}", QUIET)
        case FromSegment(segment=segment, version=version):
            return Text(f"segment {segment}").append(f"  version {version}", QUIET)
        case FromEvent(sequence=sequence, field=field):
            return Text(f"event {sequence}").append(f"  {field}", QUIET)
        case FromBlueprint():
            return Text("the blueprint")
        case FromTurns(view=view, first=first, last=last, condensed=condensed):
            turns = f"turn {first}" if first == last else f"turns {first} to {last}"
            return Text(turns).append(f"  view {view}{', in short' * bool(condensed)}", QUIET)
        case FromResolved(resolution=sequence, lines=lines):
            return Text(f"event {sequence}").append(f"  {', '.join(lines.values())}", QUIET)
        case _ as never:
            assert_never(never)
