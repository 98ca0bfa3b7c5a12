from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import shorten
from typing import Final, Literal

from pydantic import BaseModel

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import Manifest, PromptPart
from turnlog.projections.audit.retelling import RecordedCallInputs
from turnlog.projections.history import HistoryTurn, build_history
from turnlog.projections.window.assemble import assemble
from turnlog.projections.window.call import ASSEMBLER_VERSION, AssembledPrompt
from turnlog.projections.window.pinned import find_missing_extensions
from turnlog.projections.window.readback import read_parts, read_tools
from turnlog.projections.window.request import ChatRequest

_MAX_VALUE_CHARACTERS: Final = 80
"""Maximum length at which a differing value is shown."""
ReproductionOutcome = Literal["reproduced", "failed", "unreproducible"]
"""`unreproducible` is no failure: this version or installation cannot decide."""


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
) -> ReproductionResult:
    """Reproduce a prompt from its manifest and the events and turns from before the call.

    `other` is the request of the other way; if both are equal, the digest is computed once.
    """
    try:
        messages = read_parts(call.manifest, events, turns, blobs)
        request = ChatRequest(call.model, messages, read_tools(call.manifest, blobs), call.parameters)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return build_failure(error)
    digest = request.compute_digest(other)
    if digest != call.manifest.digest:
        return ReproductionResult("failed", request, "request", f"it reads back as {digest}")
    return ReproductionResult("reproduced", request)


def read_verified_request(
    call: ContextAssembled, events: Sequence[RecordedEvent], blobs: Mapping[Digest, str]
) -> ChatRequest:
    """Read back the request of a call; raise `Corrupt` if it is not the recorded one.

    The events may continue after the call and may have gaps, as for `read_back`.
    """
    known = [event for event in events if event.sequence <= call.manifest.sequence]
    way = reproduce_by_reference(call, known, {turn.turn: turn for turn in build_history(known)}, blobs)
    if way.request is None or way.outcome != "reproduced":
        raise Corrupt(way.first_difference, way.detail)
    return way.request


def reproduce_by_assembly(inputs: RecordedCallInputs) -> ReproductionResult:
    """Reproduce a prompt by assembling it again, and compare all that was recorded of it."""
    try:
        again = assemble(inputs.material, inputs.state, inputs.call_request, inputs.texts)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return _resolve_failure(build_failure(error), inputs, None)
    where, detail = find_difference(inputs.call, again) or ("", "")
    if not where:
        return ReproductionResult("reproduced", again.request)
    return _resolve_failure(ReproductionResult("failed", again.request, where, detail), inputs, again)


def build_failure(error: Exception) -> ReproductionResult:
    """Build the result for an error that prevented reproduction."""
    match error:
        case Corrupt(where=where, detail=detail):
            return ReproductionResult("failed", None, where, detail)
        case _:
            return ReproductionResult("failed", None, "record", f"{type(error).__name__}: {error}")


def _resolve_failure(result: ReproductionResult, inputs: RecordedCallInputs, again: AssembledPrompt | None) -> ReproductionResult:
    """Return `unreproducible` instead of a failure if the installation or version explains it."""
    if absent := find_missing_extensions(inputs.material, inputs.call.manifest.kind):
        return ReproductionResult("unreproducible", None, "installation", f"{', '.join(absent)} is not installed")
    moved = _describe_version_change(inputs.call.manifest, again)
    return ReproductionResult("unreproducible", result.request, result.first_difference, moved) if moved else result


def _describe_version_change(recorded: Manifest, again: AssembledPrompt | None) -> str:
    if recorded.assembler != ASSEMBLER_VERSION:
        return f"it was assembled by version {recorded.assembler}, and this is {ASSEMBLER_VERSION}"
    if again and recorded.counter != again.manifest.counter:
        then, now = recorded.counter, again.manifest.counter
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
