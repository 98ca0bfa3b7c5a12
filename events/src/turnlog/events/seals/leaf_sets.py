"""The leaves that a box is sealed under: of one session, or of several, in one short text.

`s1:4,7-9;s2:1` are the leaves 4, 7, 8 and 9 of session `s1`, and leaf 1 of `s2`. It stands in the
clear beside the box, so that a reader knows which keys it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnlog.events.ids import ID_PATTERN
from turnlog.events.seals.key_tree import LEAF_COUNT

LeafSets = Mapping[str, frozenset[int]]
"""Leaves by session."""

SEALED_BYTES: Final = 1_024
"""Most bytes that sealing adds to a text under the leaves of one turn."""

MAX_NAMED_LEAVES: Final = LEAF_COUNT
"""Most leaves that the name of a box may list."""

SEALED_TEXT: Final = re.compile(rb"turnlog-sealed 1 ([A-Za-z0-9_:,;-]+)\n")
"""How a sealed blob or snapshot begins: with the name of its leaves."""


def is_sealed_text(stored: bytes) -> bool:
    """Return whether stored bytes are a sealed text."""
    return SEALED_TEXT.match(stored) is not None


_SESSION_ID: Final = re.compile(ID_PATTERN)

_NAME: Final = re.compile(r"([^:]+):([0-9]{1,7}(?:-[0-9]{1,7})?(?:,[0-9]{1,7}(?:-[0-9]{1,7})?)*)")


def format_leaves(leaves: LeafSets) -> str:
    """Return the name of leaves."""
    return ";".join(
        f"{session}:{','.join(_format_runs(sorted(leaves[session])))}"
        for session in sorted(leaves)
        if leaves[session]
    )


def _format_runs(numbers: Iterable[int]) -> Iterator[str]:
    first = last = -2
    for number in (*numbers, -2):
        if number == last + 1:
            last = number
            continue
        if first >= 0:
            yield f"{first}" if first == last else f"{first}-{last}"
        first = last = number


def parse_leaf_runs(name: str) -> Mapping[str, Sequence[range]] | None:
    """Return the runs of leaves of each session in a name; None if it is none."""
    found: dict[str, Sequence[range]] = {}
    left = MAX_NAMED_LEAVES
    for each in name.split(";"):
        match = _NAME.fullmatch(each)
        if match is None or _SESSION_ID.fullmatch(match[1]) is None:
            return None
        runs = [_parse_run(run) for run in match[2].split(",")]
        left -= sum(map(len, runs))
        if left < 0:
            return None
        found[match[1]] = runs
    return found


def _parse_run(run: str) -> range:
    first, _, last = run.partition("-")
    return range(int(first), int(last or first) + 1)


def join_leaves(*sets: LeafSets) -> LeafSets:
    """Return the leaves of all of these together."""
    joined: dict[str, set[int]] = {}
    for each in sets:
        for session, leaves in each.items():
            joined.setdefault(session, set()).update(leaves)
    return {session: frozenset(leaves) for session, leaves in joined.items()}
