"""Referring: which events a manifest refers to, and where they lie, so that no others are read.

A manifest names sequences and turns; the state before the call knows where the recent ones lie in
the stream. It is an index and nothing else: what is read there has to match the digests of the
manifest, whoever said where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.manifest import FromEvent, FromResolved, FromTurns, Manifest
from turnlog.projections.session.state import Brought, Said, SessionState


@dataclass(frozen=True, slots=True)
class Referred:
    """What has to be read."""

    places: frozenset[int]
    """Events by where they lie in the stream."""
    sequences: tuple[int, ...]
    """Others by their sequence only."""


def referred_to(manifest: Manifest, state: SessionState) -> Referred | None:
    """Say which events reading back takes; none where the state does not reach back far enough."""
    turns, sequences = _named(manifest)
    texts = {ref.turn: (ref.text, ref.reply, ref.work) for ref in state.turns}
    if any(turn not in texts or texts[turn][0] is None for turn in turns):
        return None
    known = {said.sequence: said.place for said in _known(state)}
    said = (each for turn in turns for each in texts[turn] if each)
    places = {each.place for each in said} | {known[at] for at in sequences & known.keys()}
    return Referred(frozenset(places), tuple(sorted(sequences - known.keys())))


def _named(manifest: Manifest) -> tuple[set[int], set[int]]:
    """Give the turns and the sequences that the standing parts name."""
    turns, sequences = set[int](), set[int]()
    for part in manifest.parts:
        match part.source if part.message is not None else None:
            case FromTurns(first=first, last=last):
                turns |= {*range(first, last + 1)}
            case FromEvent(sequence=sequence) | FromResolved(resolution=sequence):
                sequences.add(sequence)
            case _:
                pass
    return turns, sequences


def _known(state: SessionState) -> Iterator[Said | Brought]:
    for ref in state.turns:
        yield from (said for said in (ref.text, ref.reply, ref.work) if said)
    if opened := state.open:
        yield from (each for each in (opened.text, opened.inputs, opened.context) if each)
        if opened.resolved:
            yield opened.resolved.results
    yield Brought(state.opened.sequence, state.opened.stream_sequence)
