"""Reproduction of a recorded prompt in two independent ways.

One way follows the references of the manifest; the other runs `assemble` on the recorded state.
Both must produce the recorded request, and the second must also produce the same manifest, since a
manifest can be forged so that it reads back consistently. Where the assembler, the token counter or
the installation has changed since, a difference proves nothing; the outcome is then
`unreproducible` and not `failed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from textwrap import shorten
from typing import Final

from pydantic import BaseModel

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import (
    EventTextSource,
    HistorySource,
    Manifest,
    PromptPart,
    ResolutionSource,
)
from turnlog.projections.audit.record.prompt_readback import read_parts, read_tools
from turnlog.projections.audit.record.session_replay import RecordedCallInputs
from turnlog.projections.audit.verify.audit_findings import ReproductionOutcome
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    SUPPORTED_ASSEMBLERS,
    AssembledPrompt,
)
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.message_media import NO_BYTES, MediaBytes
from turnlog.projections.prompt.planned_media import split_omissions
from turnlog.projections.prompt.sources.session_material import find_missing_extensions
from turnlog.projections.session.open_turn import PromptedCall
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import InputsRef, TextRef
from turnlog.projections.session_views.session_history import HistoryTurn, build_history


@dataclass(frozen=True, slots=True)
class ManifestRefs:
    """The events that a manifest refers to."""

    stream_positions: frozenset[int]
    """Events by stream sequence."""
    sequences: tuple[int, ...]
    """Further events, of which only the session sequence is known."""


def collect_manifest_refs(manifest: Manifest, state: SessionState) -> ManifestRefs | None:
    """Return the events that reading back a manifest needs, or None if the state is too short.

    The state before the call serves as an index only. What is read must match the digests of the
    manifest.
    """
    turns, sequences = _collect_turns_and_sequences(manifest)
    texts = {ref.turn: _list_turn_refs(ref) for ref in state.turns}
    if any(turn not in texts or texts[turn][0] is None for turn in turns):
        return None
    known = {ref.sequence: ref.place for ref in _iterate_stored_refs(state)}
    turn_refs = (each for turn in turns for each in texts[turn] if each)
    places = {each.place for each in turn_refs} | {known[at] for at in sequences & known.keys()}
    return ManifestRefs(frozenset(places), tuple(sorted(sequences - known.keys())))


def _collect_turns_and_sequences(manifest: Manifest) -> tuple[set[int], set[int]]:
    turns, sequences = set[int](), set[int]()
    for part in chain.from_iterable(map(split_omissions, manifest.parts)):
        match part.source if part.message is not None else None:
            case HistorySource(first=first, last=last):
                turns |= {*range(first, last + 1)}
            case EventTextSource(sequence=sequence) | ResolutionSource(resolution=sequence):
                sequences.add(sequence)
            case _:
                pass
    return turns, sequences


def _list_turn_refs(ref: SettledTurnRef) -> tuple[TextRef | InputsRef | None, ...]:
    return ref.text, ref.reply, ref.work, *ref.outcome_refs, ref.submission


def _iterate_stored_refs(state: SessionState) -> Iterator[TextRef | InputsRef]:
    for ref in state.turns:
        yield from (turn_ref for turn_ref in _list_turn_refs(ref) if turn_ref)
    if opened := state.open:
        yield from filter(None, (opened.submission.text, opened.submission.inputs))
        if isinstance(opened.call, PromptedCall):
            yield opened.call.manifest
        if opened.resolved:
            yield opened.resolved.results
    yield InputsRef(state.opened.sequence, state.opened.stream_sequence)


_MAX_VALUE_CHARACTERS: Final = 80
"""Maximum length at which a differing value is shown."""


@dataclass(frozen=True, slots=True)
class ReproductionResult:
    """The result of one way of reproducing a prompt."""

    outcome: ReproductionOutcome
    request: ChatRequest | None = None
    """The reproduced request; None if there is none."""
    first_difference: str = ""
    """What differs first: `part rules`, `request`."""
    detail: str = ""
    """How it differs."""


def reproduce_by_reference(
    call: ContextAssembled,
    events: Sequence[RecordedEvent],
    turns: Mapping[int, HistoryTurn],
    blobs: Mapping[Digest, str],
    other: ChatRequest | None = None,
    media: MediaBytes = NO_BYTES,
) -> ReproductionResult:
    """Reproduce a prompt from its manifest and the events and turns from before the call.

    `other` is the request of the other way; if both are equal, the digest is computed once. The
    body that was sent has the bytes of pictures, recordings and files. It is compared where `media`
    has them all.
    """
    try:
        messages = read_parts(call.manifest, events, turns, blobs)
        request = ChatRequest(
            call.model, messages, read_tools(call.manifest, blobs), call.parameters
        )
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return build_failure(error)
    digest = request.compute_digest(other)
    if digest != call.manifest.digest:
        return ReproductionResult("failed", request, "request", f"it reads back as {digest}")
    if call.body_digest is not None and all(each.digest in media for each in request.media):
        sent = compute_digest(request.build_chat_body(media))
        if sent != call.body_digest:
            return ReproductionResult("failed", request, "body", f"it reads back as {sent}")
    return ReproductionResult("reproduced", request)


def read_verified_request(
    call: ContextAssembled, events: Sequence[RecordedEvent], blobs: Mapping[Digest, str]
) -> ChatRequest:
    """Read back the request of a call; raise `Corrupt` if it is not the recorded one.

    The events may continue after the call and may have gaps, as for `read_back`.
    """
    known = [event for event in events if event.sequence <= call.manifest.sequence]
    way = reproduce_by_reference(
        call, known, {turn.turn: turn for turn in build_history(known)}, blobs
    )
    if way.request is None or way.outcome != "reproduced":
        raise Corrupt(way.first_difference, way.detail)
    return way.request


def reproduce_by_assembly(inputs: RecordedCallInputs) -> ReproductionResult:
    """Reproduce a prompt by assembling it again, and compare all that was recorded of it."""
    try:
        planned = plan_prompt(inputs.material, inputs.state, inputs.call_request)
        again = assemble(planned, inputs.texts)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return _resolve_failure(build_failure(error), inputs, None)
    place, detail = find_difference(inputs.call, again) or ("", "")
    if not place:
        return ReproductionResult("reproduced", again.request)
    return _resolve_failure(
        ReproductionResult("failed", again.request, place, detail), inputs, again
    )


def build_failure(error: Exception) -> ReproductionResult:
    """Build the result for an error that prevented reproduction."""
    match error:
        case Corrupt(where=place, detail=detail):
            return ReproductionResult("failed", None, place, detail)
        case _:
            return ReproductionResult("failed", None, "record", f"{type(error).__name__}: {error}")


def _resolve_failure(
    result: ReproductionResult, inputs: RecordedCallInputs, again: AssembledPrompt | None
) -> ReproductionResult:
    """Return `unreproducible` instead of a failure if the installation or version explains it."""
    if absent := find_missing_extensions(inputs.material, inputs.call.manifest.kind):
        return ReproductionResult(
            "unreproducible", None, "installation", f"{', '.join(absent)} is not installed"
        )
    moved = _describe_version_change(inputs.call.manifest, again)
    return (
        ReproductionResult("unreproducible", result.request, result.first_difference, moved)
        if moved
        else result
    )


def _describe_version_change(recorded: Manifest, again: AssembledPrompt | None) -> str:
    if recorded.assembler not in SUPPORTED_ASSEMBLERS:
        return f"it was assembled by version {recorded.assembler}, and this is {ASSEMBLER_VERSION}"
    # Unlike the counter, the factor follows from the log, so that another one is no other version.
    then, now = recorded.counter, again.manifest.counter if again else recorded.counter
    if (then.name, then.exact) != (now.name, now.exact) and then.factor == now.factor:
        return f"its tokens were counted by {then}, and now are by {now}"
    return ""


def find_difference(call: ContextAssembled, again: AssembledPrompt) -> tuple[str, str] | None:
    """Return where a reassembled call first differs from its record, and how, or None."""
    recorded, found = call.manifest, again.manifest
    if recorded != found:
        for then, now in zip_longest(recorded.parts, found.parts):
            if then != now:
                return _compare_part(then, now)
        return "manifest", _compare_fields(recorded, found)
    if call.parameters != again.request.parameters:
        return "parameters", f"{again.request.parameters}, recorded as {call.parameters}"
    return None


def _compare_part(then: PromptPart | None, now: PromptPart | None) -> tuple[str, str]:
    if now is None or then is None:
        named = then or now
        layer = named.layer if named else ""
        return (
            f"part {layer}",
            "it was recorded, and is not assembled" if then else "it is not on the record",
        )
    if then.layer != now.layer:
        return f"part {now.layer}", f"recorded as part {then.layer}"
    return f"part {then.layer}", _compare_fields(then, now)


def _compare_fields(then: BaseModel, now: BaseModel) -> str:
    for name in type(then).model_fields:
        was, found = getattr(then, name), getattr(now, name)
        if was != found:
            return f"its {name} is {_format_value(found)}, recorded as {_format_value(was)}"
    return "it differs"


def _format_value(value: object) -> str:
    return shorten(str(value), _MAX_VALUE_CHARACTERS, placeholder=" ...")
