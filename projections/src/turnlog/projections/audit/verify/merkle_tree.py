"""Merkle trees as in RFC 9162, section 2.1: one root stands for a list of entries.

A path has what is needed to compute the root from some of the entries, so that a stranger can check
that they are in the list without the rest of it. Its nodes are the roots of the largest subtrees
without one of these entries, from left to right; for a single entry these are the nodes of the
RFC's audit path. That a tree grew from another is shown likewise, by nodes from which both roots
follow. The verifiers of bundles and proofs have the other half, the computation of roots
from a path, on purpose: `services/bundle/merkle_paths`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

EMPTY_ROOT: Final = sha256(b"").digest()
"""The root of a tree without entries."""


@dataclass(slots=True)
class MerkleTree:
    """A tree that grows entry by entry; it has one node for each power of two in its size."""

    size: int = 0
    subtrees: list[bytes] = field(default_factory=list[bytes])
    """The roots of the complete subtrees, from left to right."""

    def add_entry(self, entry: bytes) -> None:
        """Add an entry at the end."""
        node, rest = sha256(b"\0" + entry).digest(), self.size
        while rest & 1:
            node, rest = sha256(b"\1" + self.subtrees.pop() + node).digest(), rest >> 1
        self.subtrees.append(node)
        self.size += 1

    def compute_root(self) -> bytes:
        """Return the root of all entries so far."""
        return _join_subtrees(self.subtrees) if self.subtrees else EMPTY_ROOT


def _join_subtrees(subtrees: Sequence[bytes]) -> bytes:
    """Return the root of a tree from those of its complete subtrees, from left to right."""
    *before, node = subtrees
    for left in reversed(before):
        node = sha256(b"\1" + left + node).digest()
    return node


@dataclass(slots=True)
class ConsistencyPath:
    """What shows that a tree grew: both its root then and its root now follow from the same nodes.

    These are the roots of the largest subtrees wholly below or wholly above the end of then.
    """

    before: Sequence[bytes]
    """The complete subtrees of then, from left to right."""
    size: int
    """The number of entries then."""
    later: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """The largest complete subtrees of later entries, each with the position of its first."""
    count: int = 0
    """The number of later entries."""

    def add_entry(self, entry: bytes) -> None:
        """Add the next entry after those of then."""
        node, place, level = sha256(b"\0" + entry).digest(), self.size + self.count, 0
        while place & 1 and (place - 1) << level >= self.size:
            node, place = sha256(b"\1" + self.later.pop()[1] + node).digest(), place >> 1
            level += 1
        self.later.append((place << level, node))
        self.count += 1

    def list_nodes(self) -> Sequence[bytes]:
        """Return the nodes from left to right; none where nothing was added."""
        path, size = list(self.before), self.size

        def walk(first: int, end: int) -> None:
            if first >= size:
                path.append(_join_subtrees([node for at, node in self.later if first <= at < end]))
            elif end > size:
                middle = first + (1 << (end - first - 1).bit_length() - 1)
                walk(first, middle)
                walk(middle, end)

        walk(0, size + self.count)
        return path if self.count else ()


def compute_tree_root(entries: Iterable[bytes]) -> bytes:
    """Return the root of the tree of these entries."""
    tree = MerkleTree()
    for entry in entries:
        tree.add_entry(entry)
    return tree.compute_root()


def build_path(entries: Sequence[bytes], positions: Collection[int]) -> Sequence[bytes]:
    """Return the path from the entries at these positions, counted from 0, to the root."""
    wanted, path = sorted(positions), list[bytes]()

    def walk(first: int, end: int) -> None:
        at = bisect_left(wanted, first)
        if at == len(wanted) or wanted[at] >= end:
            path.append(compute_tree_root(entries[first:end]))
        elif end - first > 1:
            middle = first + (1 << (end - first - 1).bit_length() - 1)
            walk(first, middle)
            walk(middle, end)

    walk(0, len(entries))
    return path
