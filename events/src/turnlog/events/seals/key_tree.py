"""The keys of one session: a binary tree of SHA-256 whose leaves can be removed one by one.

Each turn has two leaves, for what a person said in it and for what came of it, and the session has
one of its own. All of them follow from a root of 32 bytes. Puncturing a leaf replaces the nodes
above it by their other children: every other leaf still follows from what is left, and that one
from nothing. A fresh tree is one node; each puncture adds at most `TREE_DEPTH` of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Final

from turnlog.events.errors import Corrupt, Refused

TREE_DEPTH: Final = 21
"""Steps from the root to a leaf."""

LEAF_COUNT: Final = 1 << TREE_DEPTH
"""Leaves of a tree; two for each turn of a session."""

KEY_BYTES: Final = 32
"""Bytes of a node, and of a key."""

SESSION_LEAF: Final = 0
"""The leaf of what belongs to the session and to no turn."""

BOX_PURPOSE: Final = b"box"
"""Purpose of the key that a box is sealed under."""

MAX_CACHED_NODES: Final = 4_096
"""Derived nodes that a tree keeps; a window of 500 turns has 1,000 leaves."""

_FORMAT: Final = b"\x01"

_NODE_BYTES: Final = 4 + KEY_BYTES

_Place = tuple[int, int]
"""Depth of a node below the root, and its number from the left there."""


def get_text_leaf(turn: int) -> int:
    """Return the leaf of what a person said in a turn."""
    return _check_leaf(2 * turn)


def get_work_leaf(turn: int) -> int:
    """Return the leaf of what came of a turn: its reply, its tools, its prompts."""
    return _check_leaf(2 * turn + 1)


def _check_leaf(leaf: int) -> int:
    if not 0 <= leaf < LEAF_COUNT:
        most = LEAF_COUNT // 2 - 1
        detail = f"a sealed session has at most {most:,} turns"
        raise Refused("too-many-turns", detail, fix="open a new session")
    return leaf


class LeafErased(Exception):
    """The leaf was punctured: its key cannot be derived any more."""


@dataclass(frozen=True, eq=False, slots=True)
class KeyTree:
    """What is left of the keys of one session."""

    nodes: Mapping[_Place, bytes] = field(repr=False)
    """The nodes that are left, none of them below another one."""
    _derived: dict[_Place, bytes] = field(default_factory=dict[_Place, bytes], repr=False)

    @classmethod
    def create(cls, root: bytes) -> KeyTree:
        """Return the whole tree of a root."""
        return cls({(0, 0): root})

    def derive_covering_keys(self, runs: Iterable[range]) -> list[bytes]:
        """Return the keys of the fewest nodes below which there are these leaves and no others.

        Raises `LeafErased` if one of the leaves was punctured, because then no node above it is
        left. A long run of turns has some twenty of them.
        """
        return [key for _, key in self.list_covering_nodes(runs)]

    def list_covering_nodes(self, runs: Iterable[range]) -> list[tuple[range, bytes]]:
        """Return the same keys, each after the leaves that follow from it."""
        places = (place for run in runs for place in _iterate_covering_nodes(run))
        return [(_list_leaves(place), self._derive_node(place)) for place in places]

    def _derive_node(self, place: _Place) -> bytes:
        found = self.nodes.get(place) or self._derived.get(place)
        if found is not None:
            return found
        depth, number = place
        if depth == 0:
            raise LeafErased
        above = self._derive_node((depth - 1, number >> 1))
        node = _derive_child(above, number & 1)
        if len(self._derived) >= MAX_CACHED_NODES:
            self._derived.clear()
        self._derived[place] = node
        return node

    def remove_leaves(self, leaves: Iterable[int]) -> KeyTree:
        """Return the tree without these leaves; those that are gone already change nothing."""
        nodes = dict(self.nodes)
        for leaf in leaves:
            _remove_leaf(nodes, _check_leaf(leaf))
        return KeyTree(nodes)

    def list_runs(self) -> list[range]:
        """Return the runs of leaves that are left, from the first one on."""
        runs: list[range] = []
        for depth, number in sorted(self.nodes, key=_get_first_leaf):
            leaves = _list_leaves((depth, number))
            first = leaves.start
            if runs and runs[-1].stop == first:
                first = runs.pop().start
            runs.append(range(first, leaves.stop))
        return runs

    def encode(self) -> bytes:
        """Return the tree as bytes: 37 of a whole one, and 36 for each further node."""
        return _FORMAT + b"".join(
            depth.to_bytes(1) + number.to_bytes(3) + self.nodes[depth, number]
            for depth, number in sorted(self.nodes)
        )

    @classmethod
    def decode(cls, encoded: bytes) -> KeyTree:
        """Return the tree in such bytes; raises `Corrupt` for any others."""
        body = encoded[len(_FORMAT) :]
        if not encoded.startswith(_FORMAT) or len(body) % _NODE_BYTES:
            raise Corrupt("key record", "it holds no tree of keys")
        return cls(dict(_iterate_nodes(body)))


EMPTY_TREE: Final = KeyTree({})
"""What is left of a tree whose leaves are all removed."""


def _get_first_leaf(place: _Place) -> int:
    depth, number = place
    return number << TREE_DEPTH - depth


def _list_leaves(place: _Place) -> range:
    first = _get_first_leaf(place)
    return range(first, first + (1 << TREE_DEPTH - place[0]))


def _iterate_nodes(body: bytes) -> Iterator[tuple[_Place, bytes]]:
    for start in range(0, len(body), _NODE_BYTES):
        place = (body[start], int.from_bytes(body[start + 1 : start + 4]))
        yield place, body[start + 4 : start + _NODE_BYTES]


def _iterate_covering_nodes(run: range) -> Iterator[_Place]:
    """Yield the largest nodes that fit into a run of leaves, from its first leaf on."""
    first, end = run.start, run.stop
    while first < end:
        _check_leaf(end - 1)
        height = min(TREE_DEPTH, (end - first).bit_length() - 1)
        if first:
            height = min(height, (first & -first).bit_length() - 1)
        yield TREE_DEPTH - height, first >> height
        first += 1 << height


def _derive_child(node: bytes, side: int) -> bytes:
    return sha256(b"turnlog key %d" % side + node).digest()


def _remove_leaf(nodes: dict[_Place, bytes], leaf: int) -> None:
    """Replace the node that a leaf follows from by its siblings on the way down."""
    depth = next((d for d in range(TREE_DEPTH + 1) if (d, leaf >> TREE_DEPTH - d) in nodes), None)
    if depth is None:
        return
    node = nodes.pop((depth, leaf >> TREE_DEPTH - depth))
    for below in range(depth + 1, TREE_DEPTH + 1):
        number = leaf >> TREE_DEPTH - below
        nodes[below, number ^ 1] = _derive_child(node, (number ^ 1) & 1)
        node = _derive_child(node, number & 1)


def derive_box_key(keys: Iterable[bytes], purpose: bytes = BOX_PURPOSE) -> bytes:
    """Return the key of what follows from several leaves: without one of them there is none.

    `keys` are those of the nodes that cover the leaves, in their order; all have one length. It is
    their BLAKE2b digest, personal to the purpose.
    """
    return blake2b(b"".join(keys), digest_size=KEY_BYTES, person=b"turnlog " + purpose).digest()
