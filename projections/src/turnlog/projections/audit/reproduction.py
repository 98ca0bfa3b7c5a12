from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import shorten
from typing import Final, Literal

from pydantic import BaseModel

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import Manifest, Part
from turnlog.projections.audit.retelling import Made
from turnlog.projections.history import Turn, history
from turnlog.projections.window.assemble import assemble
from turnlog.projections.window.call import ASSEMBLER, Assembled
from turnlog.projections.window.pinned import lacking
from turnlog.projections.window.readback import read_parts, tools_of
from turnlog.projections.window.request import Request

_MOST: Final = 80
"""Maximum length at which a differing value is shown."""
Outcome = Literal["reproduced", "failed", "unreproducible"]
"""`unreproducible` is no failure: this version or installation cannot decide."""


@dataclass(frozen=True, slots=True)
class Way:
    """The result of one way of reproducing a prompt."""

    outcome: Outcome
    request: Request | None = None
    """The reproduced request; None if there is none."""
    where: str = ""
    """What differs first: `part rules`, `request`."""
    detail: str = ""
    """How it differs."""


def by_reference(
    call: ContextAssembled,
    known: Sequence[Recorded],
    turns: Mapping[int, Turn],
    blobs: Mapping[Digest, str],
    other: Request | None = None,
) -> Way:
    """Reproduce a prompt from its manifest and the events and turns from before the call.

    `other` is the request of the other way; if both are equal, the digest is computed once.
    """
    try:
        messages = read_parts(call.manifest, known, turns, blobs)
        request = Request(call.model, messages, tools_of(call.manifest, blobs), call.parameters)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return failed(error)
    digest = request.digested_with(other)
    if digest != call.manifest.digest:
        return Way("failed", request, "request", f"it reads back as {digest}")
    return Way("reproduced", request)


def proven(
    call: ContextAssembled, events: Sequence[Recorded], blobs: Mapping[Digest, str]
) -> Request:
    """Read back the request of a call; raise `Corrupt` if it is not the recorded one.

    The events may continue after the call and may have gaps, as for `read_back`.
    """
    known = [event for event in events if event.sequence <= call.manifest.sequence]
    way = by_reference(call, known, {turn.turn: turn for turn in history(known)}, blobs)
    if way.request is None or way.outcome != "reproduced":
        raise Corrupt(way.where, way.detail)
    return way.request


def by_assembly(made: Made) -> Way:
    """Reproduce a prompt by assembling it again, and compare all that was recorded of it."""
    try:
        again = assemble(made.material, made.state, made.asked, made.texts)
    except Exception as error:  # noqa: BLE001 - a record that was altered may hold anything
        return _told_apart(failed(error), made, None)
    where, detail = difference(made.call, again) or ("", "")
    if not where:
        return Way("reproduced", again.request)
    return _told_apart(Way("failed", again.request, where, detail), made, again)


def failed(error: Exception) -> Way:
    """Build the result for an error that prevented reproduction."""
    match error:
        case Corrupt(where=where, detail=detail):
            return Way("failed", None, where, detail)
        case _:
            return Way("failed", None, "record", f"{type(error).__name__}: {error}")


def _told_apart(way: Way, made: Made, again: Assembled | None) -> Way:
    """Return `unreproducible` instead of a failure if the installation or version explains it."""
    if absent := lacking(made.material, made.call.manifest.kind):
        return Way("unreproducible", None, "installation", f"{', '.join(absent)} is not installed")
    moved = _moved_on(made.call.manifest, again)
    return Way("unreproducible", way.request, way.where, moved) if moved else way


def _moved_on(recorded: Manifest, again: Assembled | None) -> str:
    if recorded.assembler != ASSEMBLER:
        return f"it was assembled by version {recorded.assembler}, and this is {ASSEMBLER}"
    if again and recorded.counter != again.manifest.counter:
        then, now = recorded.counter, again.manifest.counter
        return f"its tokens were counted by {then}, and now are by {now}"
    return ""


def difference(call: ContextAssembled, again: Assembled) -> tuple[str, str] | None:
    """Return where a reassembled call first differs from its record, and how, or None."""
    recorded, found = call.manifest, again.manifest
    if recorded != found:
        for then, now in zip_longest(recorded.parts, found.parts):
            if then != now:
                return _part_differs(then, now)
        return "manifest", _field_differs(recorded, found)
    if call.parameters != again.request.parameters:
        return "parameters", f"{again.request.parameters}, recorded as {call.parameters}"
    return None


def _part_differs(then: Part | None, now: Part | None) -> tuple[str, str]:
    if now is None or then is None:
        named = then or now
        layer = named.layer if named else ""
        return (
            f"part {layer}",
            "it was recorded, and is not assembled" if then else "it is not on the record",
        )
    if then.layer != now.layer:
        return f"part {now.layer}", f"recorded as part {then.layer}"
    return f"part {then.layer}", _field_differs(then, now)


def _field_differs(then: BaseModel, now: BaseModel) -> str:
    for name in type(then).model_fields:
        was, found = getattr(then, name), getattr(now, name)
        if was != found:
            return f"its {name} is {_spelt(found)}, recorded as {_spelt(was)}"
    return "it differs"


def _spelt(value: object) -> str:
    return shorten(str(value), _MOST, placeholder=" ...")
