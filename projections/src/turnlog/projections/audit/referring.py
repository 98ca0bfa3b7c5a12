"""Reproduction of a recorded prompt in two independent ways.

One way follows the references of the manifest; the other runs `assemble` on the recorded state.
Both must produce the recorded request, and the second must also produce the same manifest, since a
manifest can be forged so that it reads back consistently. Where the assembler, the token counter or
the installation has changed since, a difference proves nothing; the outcome is then
`unreproducible` and not `failed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.manifest import EventTextSource, ResolutionSource, HistorySource, Manifest
from turnlog.projections.session.state import InputsRef, TextRef, SessionState


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
    texts = {ref.turn: (ref.text, ref.reply, ref.work) for ref in state.turns}
    if any(turn not in texts or texts[turn][0] is None for turn in turns):
        return None
    known = {said.sequence: said.place for said in _iterate_stored_refs(state)}
    said = (each for turn in turns for each in texts[turn] if each)
    places = {each.place for each in said} | {known[at] for at in sequences & known.keys()}
    return ManifestRefs(frozenset(places), tuple(sorted(sequences - known.keys())))


def _collect_turns_and_sequences(manifest: Manifest) -> tuple[set[int], set[int]]:
    turns, sequences = set[int](), set[int]()
    for part in manifest.parts:
        match part.source if part.message is not None else None:
            case HistorySource(first=first, last=last):
                turns |= {*range(first, last + 1)}
            case EventTextSource(sequence=sequence) | ResolutionSource(resolution=sequence):
                sequences.add(sequence)
            case _:
                pass
    return turns, sequences


def _iterate_stored_refs(state: SessionState) -> Iterator[TextRef | InputsRef]:
    for ref in state.turns:
        yield from (said for said in (ref.text, ref.reply, ref.work) if said)
    if opened := state.open:
        yield from (each for each in (opened.text, opened.inputs, opened.context) if each)
        if opened.resolved:
            yield opened.resolved.results
    yield InputsRef(state.opened.sequence, state.opened.stream_sequence)
