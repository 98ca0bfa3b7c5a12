"""What is left of the keys of a session after an erasure, in a form that opens nothing.

Nodes of the tree cover the leaves that are left, and each node is named by a digest. The digest of
this list is recorded when keys are removed. Whoever gets the list later sees that no node is above
a removed leaf, and whoever gets nodes as well sees that they are the recorded ones.

Leaves of turns that have been are covered apart from those of turns to come. The nodes of the first
can be handed out with the events of these turns, and open nothing that comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest, encode_canonical
from turnlog.events.seals.key_tree import KeyTree, get_work_leaf

NODE_PURPOSE: Final = b"turnlog kept key"
"""What the digest of a node begins with; keys below the node follow from other bytes."""


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A node of the tree of keys that is left."""

    leaves: range
    """The leaves that follow from it."""
    node: bytes = field(repr=False)

    @property
    def hash(self) -> Digest:
        """The digest that names the node."""
        return f"sha256:{sha256(NODE_PURPOSE + self.node).hexdigest()}"

    def describe(self) -> dict[str, JsonValue]:
        """Return the node as it is listed: by its leaves and its digest."""
        return {"first": self.leaves.start, "last": self.leaves.stop - 1, "hash": self.hash}


def list_kept_keys(tree: KeyTree, last_turn: int) -> list[KeptKey]:
    """Return the fewest nodes that cover the leaves that are left, from the first leaf on.

    None of them has leaves both of turns up to the last one and of later turns.
    """
    runs = _split_runs(tree.list_runs(), get_work_leaf(last_turn) + 1)
    return [KeptKey(*each) for each in tree.list_covering_nodes(runs)]


def compute_kept_digest(kept: Sequence[KeptKey]) -> Digest:
    """Return the digest of a list of nodes: of JSON with sorted keys, without whitespace."""
    return compute_digest(encode_canonical([each.describe() for each in kept]))


def _split_runs(runs: Iterable[range], at: int) -> Iterator[range]:
    for run in runs:
        middle = min(max(at, run.start), run.stop)
        yield from filter(None, (range(run.start, middle), range(middle, run.stop)))
