"""Prompts on a terminal: each layer with its source, and the left-out parts.

The texts are complete: they are exactly what the model was sent. The manifest lists the parts in
order with their lengths, so the text of each message can be attributed to them. Blank lines that
join two layers of one message are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import assert_never

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.errors import Corrupt
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    Manifest,
    MessageRole,
    ParentInputSource,
    PartSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.layer_specs import OUTPUT_LAYER
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.planned_media import split_omissions
from turnlog.projections.session_views.cost_totals import is_guessed_price
from turnlog.services.api.prompt_payloads import (
    AssembledPromptView,
    MessageView,
    RecordedPromptView,
    ReproductionView,
    WindowView,
)
from turnlog.services.cli.views.text_format import format_digest, format_excerpt, format_money
from turnlog.services.cli.views.theme import (
    BAD,
    GOOD,
    MUTED,
    WARNING,
    choose_layer_colours,
    render_labelled_text,
)
from turnlog.services.cli.views.token_view import render_token_bars
from turnlog.services.model_facts.model_prices import NO_TABLE


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """The text that one part contributes to one message."""

    part: PromptPart
    message_index: int
    role: MessageRole
    text: str
    """The whole text that the part adds to the message."""

    @property
    def visible_text(self) -> str:
        """The text without the blank line that joins it to the part before."""
        if self.part.at is not None and not self.text:
            return f"[{self.part.item or 'no name'}] {format_digest(self.part.digest or '')}"
        before = self.part.before
        return self.text[len(before) - len(before.lstrip("\n")) :]


def split_prompt(messages: Sequence[ChatMessage], manifest: Manifest) -> tuple[PromptSpan, ...]:
    """Split a prompt into spans; raises `Corrupt` if the manifest's lengths do not add up."""
    texts = (*_iterate_spans(messages, manifest), *_iterate_media_spans(messages, manifest))
    found = tuple(sorted(texts, key=lambda each: each.message_index))
    expected_length = sum(part.characters for part in manifest.parts if part.message is not None)
    if sum(len(passage.text) for passage in found) != expected_length:
        raise Corrupt("manifest", "its parts are not as long as the prompt's messages")
    return found


def _iterate_spans(messages: Sequence[ChatMessage], manifest: Manifest) -> Iterator[PromptSpan]:
    included = [
        part
        for part in manifest.parts
        if part.message is not None and part.at is None and not part.is_reply_reasoning
    ]
    ends = [part.message for part in included[1:]] + [len(messages)]
    begins = calls = 0
    for part, end in zip(included, ends, strict=False):  # Without parts there are no ends either.
        first = part.message or 0
        if isinstance(part.source, HistorySource):
            spans = _split_run(part, messages, begins, end or 0)
            yield from spans
            is_joined = bool(spans) and spans[-1].message_index == end
            held = begins if end == first else 0
            begins = held + len(spans[-1].text) if is_joined else 0
            continue
        if part.role == "tool_call":
            call = messages[first].tool_calls[calls]
            begins, calls = (begins, calls + 1) if end == first else (0, 0)
            yield PromptSpan(part, first, messages[first].role, _format_tool_call(part, call))
            continue
        if part.role == "reasoning":
            message, signed = messages[first], calls - 1
            text = message.tool_calls[signed].signature if part.item else message.reasoning
            begins, calls = (begins, calls) if end == first else (0, 0)
            yield PromptSpan(part, first, message.role, text or "")
            continue
        text = messages[first].content[begins : begins + part.characters]
        begins = begins + part.characters if end == first else 0
        yield PromptSpan(part, first, messages[first].role, text)


def _split_run(
    part: PromptPart, messages: Sequence[ChatMessage], begins: int, end: int
) -> list[PromptSpan]:
    """Return the texts of a run, of which the first and the last may share a message with others.

    `begins` is where it begins in its first message, and `end` the message of the next part.
    """
    spans, left, first = list[PromptSpan](), part.characters, part.message or 0
    for place in range(first, min(end + 1, len(messages))):
        start = begins if place == first else 0
        text = messages[place].content[start : start + left]
        if text or place != end:
            spans.append(PromptSpan(part, place, messages[place].role, text))
            left -= len(text)
    return spans


def _iterate_media_spans(
    messages: Sequence[ChatMessage], manifest: Manifest
) -> Iterator[PromptSpan]:
    """Yield a span for each picture, recording and file, with the line in its place if any.

    So is what was reasoned before an earlier reply: neither is among the texts of its message.
    """
    placed = [part for part in manifest.parts if part.message is not None]
    for part in placed:
        if part.is_reply_reasoning:
            message = messages[part.message or 0]
            yield PromptSpan(part, part.message or 0, message.role, message.reasoning)
    media = (part for part in placed if part.at is not None)
    for part in chain.from_iterable(map(split_omissions, media)):
        message = messages[part.message or 0]
        lines = (each.note for each in message.media if each.at == part.at and each.note)
        text = next(lines, "") if part.treatment == "dropped" else ""
        yield PromptSpan(part, part.message or 0, message.role, text)


def _format_tool_call(part: PromptPart, call: ToolRequest) -> str:
    """Return what is counted of a tool call: arguments that were left out are not."""
    return f"{call.tool} {'' if part.cut else call.arguments}"


def render_prompt(prompt: RecordedPromptView, most_characters: int | None = None) -> RenderableType:
    """Render the prompt of a call and whether it is proven to be the recorded one.

    Of each text at most `most_characters` are shown; all of it without them.
    """
    call = Text().append(f"prompt of call {prompt.call}", "bold")
    call.append(f"  {prompt.session} · {prompt.model} · {prompt.manifest.kind}", MUTED)
    body = _render_body(prompt.messages, prompt.manifest, most_characters)
    return Group(call, *body, render_proof(prompt))


def render_model_messages(prompt: RecordedPromptView) -> RenderableType:
    """Render only the messages of a call, for use inside a replayed conversation."""
    tokens = f"  {prompt.model} · {prompt.manifest.tokens:,} tokens"
    head = Text().append(f"the model is shown, in call {prompt.call}", "bold").append(tokens, MUTED)
    messages = [view.restore_message() for view in prompt.messages]
    return Group(
        head,
        render_prompt_messages(messages, prompt.manifest) if messages else render_proof(prompt),
        Text(),
    )


def render_window(window: WindowView) -> RenderableType:
    """Render the prompt that a call would have."""
    call = Text().append(f"window of the next {window.call}", "bold")
    at = f"  {window.session} · {window.model} · at sequence {window.sequence}"
    return Group(
        call.append(at, MUTED),
        *_render_body(window.messages, window.manifest),
        _render_cost(window.cost),
        *_render_other_calls(window),
    )


def _render_other_calls(window: WindowView) -> Iterator[Text]:
    others = [kind for kind in window.turn_calls if kind != window.call]
    if others:
        yield Text(f"a turn may also make {', '.join(others)}; `--call` shows one of them", MUTED)


def render_assembled_prompt(blueprint: str, assembled: AssembledPromptView) -> RenderableType:
    """Render a prompt that was assembled without a session."""
    head = Text().append(f"{assembled.call} of a new session", "bold")
    return Group(
        head.append(f"  {blueprint} · {assembled.model} · nothing written", MUTED),
        *_render_body(assembled.messages, assembled.manifest),
        _render_cost(assembled.cost),
    )


def _render_cost(cost: AttemptCost) -> Text:
    amount = format_money(cost.micro_dollars, guessed=is_guessed_price(cost.price))
    line = Text(f"{amount} for the prompt", "bold")
    return line.append(f" · {_describe_price(cost)} · the reply comes on top", MUTED)


def _describe_price(cost: AttemptCost) -> str:
    match cost.price:
        case "fallback":
            return f"the model is not in {cost.table}"
        case "normalised":
            return f"by its name without region, {cost.table}"
        case _:
            is_free = cost.table == NO_TABLE
            return "a scripted model costs nothing" if is_free else f"by its name, {cost.table}"


def render_proof(prompt: RecordedPromptView) -> RenderableType:
    """Render for each way of reproduction whether it yields the recorded prompt."""
    ways = Table.grid(padding=(0, 2))
    ways.add_column()
    ways.add_column(no_wrap=True)
    ways.add_column(overflow="fold")
    for name, way in (("by reference", prompt.reference), ("by assembly", prompt.assembly)):
        ways.add_row(_render_way_mark(way), Text(name, "bold"), Text(_describe_way(way)))
    ways.add_row("", Text("recorded", "bold"), Text(prompt.digest, MUTED))
    if prompt.body_digest:
        what = Text(prompt.body_digest, MUTED).append(", the body byte for byte")
        ways.add_row("", Text("sent", "bold"), what)
    return ways


def _render_way_mark(way: ReproductionView) -> Text:
    colour = {"reproduced": GOOD, "unreproducible": WARNING, "failed": BAD}[way.outcome]
    return Text({"reproduced": "✓", "unreproducible": "-", "failed": "✗"}[way.outcome], colour)


def _describe_way(way: ReproductionView) -> str:
    if way.fault is None:
        return "byte for byte the recorded one"
    apart = "not reproducible by this version: " if way.outcome == "unreproducible" else ""
    return f"{apart}{way.fault.where}: {way.fault.detail}"


def _render_body(
    views: Sequence[MessageView], manifest: Manifest, most_characters: int | None = None
) -> Iterator[RenderableType]:
    if views:
        messages = [view.restore_message() for view in views]
        yield render_prompt_messages(messages, manifest, most_characters)
    yield Text()
    yield render_parts(manifest)
    yield Text()
    yield render_token_bars(manifest)
    absent = render_left_out_parts(manifest)
    if absent is not None:
        yield Text("\nleft out", MUTED)
        yield absent
    yield Text()


def render_prompt_messages(
    messages: Sequence[ChatMessage], manifest: Manifest, most_characters: int | None = None
) -> RenderableType:
    """Render the messages layer by layer."""
    colours = choose_layer_colours(manifest.parts)
    width = max((len(layer) for layer in colours), default=0)
    spans = split_prompt(messages, manifest)
    return Group(*_render_spans(spans, colours, width, most_characters))


def _render_spans(
    spans: Sequence[PromptSpan],
    colours: Mapping[str, str],
    width: int,
    most_characters: int | None,
) -> Iterator[RenderableType]:
    last_index = -1
    for passage in spans:
        if passage.message_index != last_index:
            last_index = passage.message_index
            yield Text(f"{last_index + 1} {passage.role}", "bold")
        colour = colours[passage.part.layer]
        yield render_labelled_text(
            label=passage.part.layer,
            text=format_excerpt(passage.visible_text, most_characters),
            colour=colour,
            width=width,
            style=colour,
        )


def render_parts(manifest: Manifest) -> Table:
    """Render the included parts with source, characters and tokens."""
    colours = choose_layer_colours(manifest.parts)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    table.add_column("layer", no_wrap=True)
    table.add_column("component", no_wrap=True)
    table.add_column("source", overflow="fold")
    table.add_column("characters", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    for part in manifest.parts:
        if part.is_included:
            layer = Text(part.layer, colours[part.layer])
            numbers = (f"{part.characters:,}", f"{part.tokens:,}")
            source = render_source(part.source).append(describe_output_request(part), MUTED)
            table.add_row(layer, part.component, source, *numbers)
    return table


def render_left_out_parts(manifest: Manifest) -> RenderableType | None:
    """Render the parts that were left out and why, or return None if there are none."""
    absent = [part for part in manifest.parts if not part.is_included]
    if not absent:
        return None
    table = Table.grid(padding=(0, 2))
    for part in absent:
        source = render_source(part.source) if part.source else Text("")
        table.add_row(
            Text(part.layer, WARNING), Text(part.treatment), Text(_describe_reason(part)), source
        )
    return table


def _describe_reason(part: PromptPart) -> str:
    if part.rule:
        return part.rule
    return "it had nothing to say" if part.treatment == "absent" else ""


def describe_output_request(part: PromptPart) -> str:
    """Describe how the schema of the answer is requested and why; empty for other layers."""
    if part.layer != OUTPUT_LAYER:
        return ""
    way = "as `response_format`" if part.role == "response_format" else "stated in the prompt"
    return f"  {way}: {part.rule}"


def render_source(origin: PartSource | None) -> Text:
    """Render the source of a part's text."""
    match origin:
        case None:
            return Text("nowhere", MUTED)
        case BlobSource(digest=digest, path=path, user=user, version=version):
            name = path if user is None else f"{path} of {user}, version {version}"
            return Text(name).append(f"  blob {format_digest(digest)}", MUTED)
        case SegmentSource(segment=segment, version=version):
            return Text(f"segment {segment}").append(f"  version {version}", MUTED)
        case EventTextSource(sequence=sequence, field=field):
            return Text(f"event {sequence}").append(f"  {field}", MUTED)
        case BlueprintTextSource():
            return Text("the blueprint")
        case HistorySource(view=view, first=first, last=last, condensed=condensed):
            turns = f"turn {first}" if first == last else f"turns {first} to {last}"
            return Text(turns).append(f"  view {view}{', in short' * bool(condensed)}", MUTED)
        case KnowledgeSource(
            collection=collection,
            entry=entry,
            revision=revision,
            score=score,
            confidence=confidence,
        ):
            figures = f"revision {revision}, score {score:g}, confidence {confidence:g}"
            return Text(f"{collection}/{entry}").append(f"  {figures}", MUTED)
        case ParentInputSource(input=name, session=session, turn=turn, digest=digest):
            place = f"turn {turn} of {session}, blob {format_digest(digest)}"
            return Text(f"input {name} of the parent").append(f"  {place}", MUTED)
        case ResolutionSource(resolution=sequence, lines=lines):
            return Text(f"event {sequence}").append(f"  {', '.join(lines.values())}", MUTED)
        case _ as never:
            assert_never(never)
