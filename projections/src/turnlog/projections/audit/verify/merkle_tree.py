"""Merkle trees as in RFC 9162, section 2.1: one root stands for a list of entries.

A path has what is needed to compute the root from some of the entries, so that a stranger can check
that they are in the list without the rest of it. Its nodes are the roots of the largest subtrees
without one of these entries, from left to right; for a single entry these are the nodes of the
RFC's audit path. The verifiers of bundles and proofs have the other half, the computation of a root
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
        if not self.subtrees:
            return EMPTY_ROOT
        *before, node = self.subtrees
        for left in reversed(before):
            node = sha256(b"\1" + left + node).digest()
        return node


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
