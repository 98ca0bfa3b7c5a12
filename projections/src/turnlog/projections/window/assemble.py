"""Assembling: a state and a blueprint become a prompt and its manifest. Pure, in two halves.

`needs` says what must be fetched, `assemble` does the rest; the fetching is left to whoever
calls. The same record gives the same bytes for ever: a change that breaks this raises the
assembler's version.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.content import digest_of
from turnlog.events.manifest import (
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromTurns,
    Manifest,
    Part,
)
from turnlog.projections.blueprint.schema import (
    Blueprint,
    CharactersPerToken,
    History,
    HistoryMessages,
    MessageSlot,
    SystemMessage,
    UserMessage,
)
from turnlog.projections.session.state import Said, SessionState
from turnlog.projections.window.call import ASSEMBLER, Assembled, Call, Needs, Texts
from turnlog.projections.window.counting import count, counter_name
from turnlog.projections.window.history import (
    OUT_OF_REACH,
    Exchange,
    LeftOut,
    chosen,
    messages_of,
    reaches_further,
    run_digest,
    said_in,
)
from turnlog.projections.window.ladder import fitted
from turnlog.projections.window.layers import Piece, layer_piece
from turnlog.projections.window.material import Material
from turnlog.projections.window.memory import Recall, recalled
from turnlog.projections.window.plan import (
    HistorySlot,
    LayerSlot,
    Plan,
    Slot,
    piece_tokens,
    plan_tokens,
)
from turnlog.projections.window.request import ChatMessage, Request, canonical
from turnlog.projections.window.tools import offered_tools, tool_name

BETWEEN: Final = "\n\n"
"""What joins the layers of one message."""
_UNBUDGETED: Final = CharactersPerToken(chars_per_token=4)
"""Who counts where nothing is ever cut."""


def needs(material: Material, state: SessionState, call: Call) -> Needs:
    """Say what a call refers to."""
    blueprint = material.blueprint
    spec = blueprint.calls[call.kind]
    budget = blueprint.budget[spec.budget] if spec.budget else None
    views = [
        blueprint.history[slot.history]
        for slot in spec.messages
        if isinstance(slot, HistoryMessages)
    ]
    recalls = [_recall(material, state, call, view) for view in views]
    told = zip(views, recalls, strict=True)
    said = [said for view, recall in told for said in said_in(chosen(view, state, recall)[0])]
    return Needs(
        blobs=_blobs(blueprint, state, call),
        said=(*said, *_asked(state)),
        older=any(
            reaches_further(view, state, budget, recall)
            for view, recall in zip(views, recalls, strict=True)
        ),
    )


def _recall(material: Material, state: SessionState, call: Call, view: History) -> Recall | None:
    return recalled(material.memory, view.memory, state, call.at)


def _asked(state: SessionState) -> tuple[Said, ...]:
    """Give where the open turn's own texts stand."""
    if state.open is None:
        return ()
    found = state.open.resolved.results if state.open.resolved else None
    return tuple(said for said in (state.open.text, found) if said)


def _blobs(blueprint: Blueprint, state: SessionState, call: Call) -> tuple[str, ...]:
    files = state.prompts.get(call.provider, {})
    slots = blueprint.calls[call.kind].messages
    listed = [name for slot in slots for name in _layers(slot)]
    return tuple(files[name].digest for name in listed if name in files)


def _layers(slot: MessageSlot) -> tuple[str, ...]:
    match slot:
        case SystemMessage(system=layers) | UserMessage(user=layers):
            return layers
        case HistoryMessages():
            return ()
        case _ as never:
            assert_never(never)


def assemble(material: Material, state: SessionState, call: Call, texts: Texts) -> Assembled:
    """Build a call's prompt; raises `Refused` when it cannot fit, `Corrupt` for a missing text."""
    blueprint = material.blueprint
    spec = blueprint.calls[call.kind]
    budget = blueprint.budget[spec.budget] if spec.budget else None
    counter = budget.counter if budget else _UNBUDGETED
    drafted = tuple(_slot(material, state, call, texts, slot, counter) for slot in spec.messages)
    tools = offered_tools(material, state) if spec.tools else ()
    offers = tuple(_tool_part(tool, counter) for tool in tools)
    beside = sum(part.tokens for part in offers)
    plan = fitted(drafted, budget, beside)
    messages, parts = _rendered(plan, counter)
    request = Request(call.model, messages, tools, dict(spec.parameters))
    manifest = Manifest(
        kind=call.kind,
        at=call.at,
        sequence=state.head.sequence,
        assembler=ASSEMBLER,
        counter=counter_name(counter),
        between=BETWEEN,
        budget=budget.tokens if budget else None,
        tokens=plan_tokens(plan, counter) + beside,
        parts=(*parts, *offers),
        digest=request.digest,
    )
    return Assembled(request, manifest)


def _slot(
    material: Material,
    state: SessionState,
    call: Call,
    texts: Texts,
    slot: MessageSlot,
    counter: CharactersPerToken,
) -> Slot:
    if isinstance(slot, HistoryMessages):
        return _history(material, state, call, texts, slot.history, counter)
    pieces = tuple(layer_piece(material, state, call, texts, name) for name in _layers(slot))
    return LayerSlot("system" if isinstance(slot, SystemMessage) else "user", pieces)


def _history(
    material: Material,
    state: SessionState,
    call: Call,
    texts: Texts,
    name: str,
    counter: CharactersPerToken,
) -> HistorySlot:
    view = material.blueprint.history[name]
    refs, left_out = chosen(view, state, _recall(material, state, call, view))
    exchanges: list[Exchange] = []
    for ref in refs:
        messages = messages_of(ref, texts)
        tokens = sum(count(counter, len(message.content)) for message in messages)
        exchanges.append(Exchange(ref.turn, messages, tokens))
    return HistorySlot(name, tuple(exchanges), left_out)


def _rendered(
    plan: Plan, counter: CharactersPerToken
) -> tuple[tuple[ChatMessage, ...], tuple[Part, ...]]:
    messages: list[ChatMessage] = []
    parts: list[Part] = []
    for slot in plan:
        if isinstance(slot, LayerSlot):
            parts += [_layer_part(slot, piece, len(messages), counter) for piece in slot.pieces]
            said = [piece.text for piece in slot.pieces if piece.text]
            messages += [ChatMessage(slot.role, BETWEEN.join(said))] if said else []
        else:
            parts += _history_parts(slot, len(messages))
            messages += [said for exchange in slot.exchanges for said in exchange.messages]
    return tuple(messages), tuple(parts)


def _layer_part(slot: LayerSlot, piece: Piece, message: int, counter: CharactersPerToken) -> Part:
    there = bool(piece.text)
    return Part(
        layer=piece.layer,
        component=piece.component,
        source=piece.source,
        message=message if there else None,
        role=slot.role if there else None,
        digest=digest_of(piece.text) if there and _elsewhere(piece) else None,
        characters=len(piece.text),
        tokens=piece_tokens(piece, counter),
        treatment="kept" if there else "absent",
        rule=piece.rule,
    )


def _elsewhere(piece: Piece) -> bool:
    """Tell whether a source points at an event, and does not give the text or its digest."""
    return isinstance(piece.source, FromEvent | FromResolved)


def _history_parts(slot: HistorySlot, message: int) -> list[Part]:
    """Give runs and gaps in the order of their turns."""
    parts: list[tuple[int, Part]] = [(out.first, _gap(slot.view, out)) for out in slot.left_out]
    numbered = enumerate(slot.exchanges)
    for _, run in groupby(numbered, key=lambda item: item[1].turn - item[0]):
        exchanges = [exchange for _, exchange in run]
        parts.append((exchanges[0].turn, _run(slot.view, exchanges, message)))
        message += sum(len(exchange.messages) for exchange in exchanges)
    return [part for _, part in sorted(parts, key=lambda item: item[0])]


def _tool_part(tool: dict[str, JsonValue], counter: CharactersPerToken) -> Part:
    text = canonical(tool)
    return Part(
        layer=tool_name(tool),
        component="tools_context",
        source=FromBlueprint(text=text, of=("cartridge.phases",)),
        role="tools",
        characters=len(text),
        tokens=count(counter, len(text)),
    )


def _run(view: str, exchanges: list[Exchange], message: int) -> Part:
    messages = [said for exchange in exchanges for said in exchange.messages]
    return Part(
        layer="history",
        component="history",
        source=FromTurns(view=view, first=exchanges[0].turn, last=exchanges[-1].turn),
        message=message,
        role=messages[0].role,
        digest=run_digest(messages),
        characters=sum(exchange.characters for exchange in exchanges),
        tokens=sum(exchange.tokens for exchange in exchanges),
        treatment="kept",
    )


def _gap(view: str, out: LeftOut) -> Part:
    cut = out.rule in {"drop_oldest_pairs", OUT_OF_REACH}
    return Part(
        layer="history",
        component="history",
        source=FromTurns(view=view, first=out.first, last=out.last),
        characters=0,
        tokens=0,
        treatment="dropped" if cut else "absent",
        rule=out.rule,
    )
