"""Assemble the prompt of a call and its manifest from session state and blueprint.

Both functions are pure: `find_prompt_needs` lists what must be fetched, the caller fetches it, and
`assemble` builds the prompt. The same record must always give the same bytes. A change that breaks
this raises `ASSEMBLER_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, assert_never

from turnlog.events.manifest import Manifest, Part, Prefix
from turnlog.projections.blueprint.budget import Budget, CharactersPerToken, allowed
from turnlog.projections.blueprint.form import JOINED
from turnlog.projections.blueprint.layer import (
    CarryLayer,
    Pinned,
    PromptsLayer,
    ResultsLayer,
    StepLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.overriding import pinned_file
from turnlog.projections.blueprint.schema import (
    Blueprint,
    HistoryMessages,
    MessageSlot,
    SystemMessage,
    UserMessage,
)
from turnlog.projections.library.picked import Wanted
from turnlog.projections.session.state import Said, SessionState
from turnlog.projections.window.call import ASSEMBLER, Assembled, Call, Needs, Texts
from turnlog.projections.window.counting import Counting, counting_by
from turnlog.projections.window.hydrating import hydration
from turnlog.projections.window.ladder import Fitting, fitted
from turnlog.projections.window.layers import Sources, layer_block
from turnlog.projections.window.looking import history_of, look, looks
from turnlog.projections.window.material import Material
from turnlog.projections.window.nesting import nested
from turnlog.projections.window.plan import HistorySlot, LayerSlot, Slot
from turnlog.projections.window.prefix import common_prefix
from turnlog.projections.window.rendering import rendered
from turnlog.projections.window.request import Request
from turnlog.projections.window.segments import omissions, wanted
from turnlog.projections.window.stepping import told_of
from turnlog.projections.window.telling import texts_told
from turnlog.projections.window.tools import offered_tools, pinned_tools

_UNBUDGETED: Final = CharactersPerToken(chars_per_token=4)
"""The counter of calls without a budget."""


def segments_wanted(material: Material, state: SessionState, call: Call) -> list[Wanted]:
    """Return the library segments that a call requests."""
    return wanted(material, material.blueprint.calls[call.kind].layers, state, call)


def needs(material: Material, state: SessionState, call: Call) -> Needs:
    """Return what must be fetched before a call can be assembled."""
    said = [said for back in looks(material, state, call) for said in back.said(state)]
    return Needs(
        blobs=_blobs(material, state, call),
        said=(*said, *_asked(state), *_under_way(material, state, call)),
        older=reaches_back(material, state, call),
        earlier=state.called.get(call.kind),
    )


def reaches_back(material: Material, state: SessionState, call: Call) -> bool:
    """Return whether a call could include turns that the state keeps only as runs."""
    budget = _budget(material.blueprint, call)
    tokens = allowed(budget.tokens, call.inputs) if budget else 0
    return any(back.further(state, budget, tokens) for back in looks(material, state, call))


def _asked(state: SessionState) -> tuple[Said, ...]:
    if state.open is None:
        return ()
    found = state.open.resolved.results if state.open.resolved else None
    return tuple(said for said in (state.open.text, found) if said)


def _budget(blueprint: Blueprint, call: Call) -> Budget | None:
    name = blueprint.calls[call.kind].budget
    return blueprint.budget[name] if name else None


def _under_way(material: Material, state: SessionState, call: Call) -> Iterator[Said]:
    """Yield the text references of the current step and of the turn's tool results."""
    blueprint = material.blueprint
    listed = (blueprint.layers.get(name) for name in blueprint.calls[call.kind].layers)
    for layer in listed:
        if isinstance(layer, StepLayer):
            yield from told_of(layer, material, state)
        elif isinstance(layer, ResultsLayer):
            yield from (given.summary for given in hydration(material, state).results)
        elif isinstance(layer, CarryLayer) and state.carried:
            yield state.carried


def _blobs(material: Material, state: SessionState, call: Call) -> tuple[str, ...]:
    files, blueprint = state.prompts.get(call.provider, {}), material.blueprint
    listed = blueprint.calls[call.kind].layers
    pinned = (pinned_file(files, name, state.profile) for name in listed)
    layers = ((name, blueprint.layers.get(name)) for name in listed)
    told = (
        source.digest
        for _, layer in layers
        if isinstance(layer, ToolsLayer | PromptsLayer)
        for source in texts_told(layer, material, state)
    )
    offered = (pin.digest for _, pin in pinned_tools(material, state, call.kind))
    return (*(file.digest for file in pinned if file), *told, *offered)


def assemble(material: Material, state: SessionState, call: Call, texts: Texts) -> Assembled:
    """Assemble the prompt of a call.

    Raises `Refused` if it cannot fit its budget, and `Corrupt` if a text was not fetched.
    """
    spec = material.blueprint.calls[call.kind]
    budget = _budget(material.blueprint, call)
    spoken = budget.counter if budget else _UNBUDGETED
    counting = counting_by(spoken, material.vocabularies, call.model)
    sources = Sources(material, state, call, texts)
    plan = tuple(_slot(sources, slot, counting) for slot in spec.messages)
    tools = offered_tools(material, state, call.kind, texts.blobs)
    offers = tuple(tool.part(counting) for tool in tools)
    beside = _tokens(offers)
    fitting = (
        Fitting(budget, counting, call.inputs, beside, material.registered) if budget else None
    )
    plan, steps = fitted(plan, fitting) if fitting else (plan, ())
    messages, said = rendered(plan, counting)
    parts = (*said, *offers)
    offered = tuple(each.tool for each in tools)
    request = Request(call.model, messages, offered, dict(spec.parameters))
    manifest = Manifest(
        kind=call.kind,
        at=call.at,
        sequence=state.head.sequence,
        assembler=ASSEMBLER,
        counter=counting.counter,
        budget=fitting.limit if fitting else None,
        tokens=_tokens(parts),
        parts=parts,
        steps=steps,
        omitted=omissions(call.gathered),
        stale=call.gathered.stale,
        prefix=_prefix(state, texts, parts),
        digest=request.digest,
    )
    return Assembled(request, manifest)


def _tokens(parts: Iterable[Part]) -> int:
    return sum(part.tokens for part in parts)


def _prefix(state: SessionState, texts: Texts, parts: tuple[Part, ...]) -> Prefix | None:
    if texts.earlier is None:
        return None
    return common_prefix(texts.earlier, parts, {ref.turn: ref for ref in state.turns})


def _slot(sources: Sources, slot: MessageSlot, counting: Counting) -> Slot:
    match slot:
        case HistoryMessages(history=view):
            return _history(sources, view, counting)
        case SystemMessage(system=layers, form=form):
            return _message(sources, "system", layers, form)
        case UserMessage(user=layers, form=form):
            return _message(sources, "user", layers, form)
        case _ as never:
            assert_never(never)


def _message(
    sources: Sources, role: Literal["system", "user"], layers: tuple[str, ...], form: str | None
) -> LayerSlot:
    blueprint = sources.material.blueprint
    spec = blueprint.forms[form] if form else JOINED
    blocks = tuple(layer_block(sources, name, spec) for name in layers)
    files = {name for name in layers if isinstance(blueprint.layers.get(name), Pinned)}
    return LayerSlot(role, spec, nested(blocks, files, blueprint.layers) if files else blocks)


def _history(sources: Sources, name: str, counting: Counting) -> HistorySlot:
    back = look(sources.material, sources.state, sources.call.at, name)
    return history_of(back, sources.state, sources.texts, counting)
