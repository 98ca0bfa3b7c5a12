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

LeafRuns = Mapping[str, Sequence[range]]
"""Runs of leaves by session."""

UPLOADS_ID: Final = "_uploads"
"""In place of a session: its keys are those of what a tenant uploads before there is a turn."""

NAMES_ID: Final = "_names"
"""In place of a session: its key is that of the pseudonyms of the people of a tenant."""

LIBRARY_PREFIX: Final = "_library-"
"""How the ids begin that stand in place of a session for the families of a tenant's library."""

SEALED_BYTES: Final = 1_024
"""Most bytes that sealing adds to a text under the leaves of one turn."""

MAX_NAMED_LEAVES: Final = LEAF_COUNT
"""Most leaves that are listed one by one."""

SEALED_TEXT: Final = re.compile(rb"turnlog-sealed 1 ([A-Za-z0-9_:,;-]+)\n")
"""How a sealed blob or snapshot begins: with the name of its leaves."""


def name_library_keys(family: str) -> str:
    """Return what stands in place of a session for the keys of a family of the library."""
    return f"{LIBRARY_PREFIX}{family}"


def get_library_leaves(family: str, sequence: int) -> LeafSets:
    """Return the leaf of an event of a family, which is that of its texts too."""
    return {name_library_keys(family): frozenset({sequence})}


def is_reserved_id(session: str) -> bool:
    """Return whether keys that are of no session are kept under this id."""
    return session in {UPLOADS_ID, NAMES_ID} or session.startswith(LIBRARY_PREFIX)


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


def format_leaf_runs(session: str, runs: Iterable[range]) -> str:
    """Return the name of runs of leaves of one session, in their order."""
    named = (f"{r.start}" if len(r) == 1 else f"{r.start}-{r.stop - 1}" for r in runs)
    return f"{session}:{','.join(named)}"


def _format_runs(numbers: Iterable[int]) -> Iterator[str]:
    first = last = -2
    for number in (*numbers, -2):
        if number == last + 1:
            last = number
            continue
        if first >= 0:
            yield f"{first}" if first == last else f"{first}-{last}"
        first = last = number


def parse_leaf_runs(name: str) -> LeafRuns | None:
    """Return the runs of leaves of each session in a name; None if it is none."""
    found: dict[str, Sequence[range]] = {}
    for each in name.split(";"):
        match = _NAME.fullmatch(each)
        if match is None or _SESSION_ID.fullmatch(match[1]) is None:
            return None
        found[match[1]] = [_parse_run(run) for run in match[2].split(",")]
    return found


def parse_leaves(name: str) -> LeafSets:
    """Return the leaves of a name, session by session; empty if it is none, or of too many."""
    runs = parse_leaf_runs(name) or {}
    if sum(len(run) for each in runs.values() for run in each) > MAX_NAMED_LEAVES:
        return {}
    return {
        session: frozenset(leaf for run in each for leaf in run) for session, each in runs.items()
    }


def has_common_leaf(one: LeafRuns, other: LeafRuns) -> bool:
    """Return whether a session has a leaf in both."""
    return any(
        max(mine.start, its.start) < min(mine.stop, its.stop)
        for session, runs in one.items()
        for mine in runs
        for its in other.get(session, ())
    )


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
