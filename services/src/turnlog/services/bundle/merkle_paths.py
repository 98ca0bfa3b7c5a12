"""Roots of Merkle trees as in RFC 9162, section 2.1, from entries and a path, or from all entries.

All verifiers have this module in them, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, cast


def compute_root(size: int, entries: Mapping[int, bytes], path: Iterator[bytes]) -> bytes:
    """Compute the root of a tree from some of its entries, by position from 0, and their path.

    The path has the roots of the largest subtrees without one of the entries, from left to right.
    """
    places = sorted(entries)

    def compute_node(first: int, end: int) -> bytes:
        at = bisect_left(places, first)
        if at == len(places) or places[at] >= end:
            return next(path)
        if end - first == 1:
            return sha256(b"\0" + entries[first]).digest()
        middle = first + (1 << (end - first - 1).bit_length() - 1)
        return sha256(b"\1" + compute_node(first, middle) + compute_node(middle, end)).digest()

    return compute_node(0, size) if size else sha256(b"").digest()


def compute_both_roots(before: int, size: int, path: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Compute the root of the first entries of a tree, and that of all, from the same nodes.

    The path has the roots of the largest subtrees wholly before or wholly behind the end of the
    first entries, from left to right: at least one of each.
    """

    def compute_nodes(first: int, end: int) -> tuple[bytes | None, bytes]:
        if end <= before or first >= before:
            node = next(path)
            return (node if end <= before else None), node
        middle = first + (1 << (end - first - 1).bit_length() - 1)
        (left, whole), (right, rest) = compute_nodes(first, middle), compute_nodes(middle, end)
        if left is not None and right is not None:
            left = sha256(b"\1" + left + right).digest()
        return left, sha256(b"\1" + whole + rest).digest()

    root, whole = compute_nodes(0, size)
    return root or whole, whole


def encode_head(name: str, head: Mapping[str, Any]) -> bytes:
    """Encode the head of a session as the entry of its tree: JSON, keys sorted, no spaces."""
    entry = {**head, "name": name}
    return json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def summarise_heads(noted: dict[str, Any]) -> dict[str, Any]:
    """Return what is signed of a checkpoint: from its second version on, a root for each list."""
    if noted.get("format") != "turnlog-checkpoint/2":
        return noted
    return {
        name: summarise_list(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in noted.items()
    }


def summarise_list(heads: dict[str, Any]) -> dict[str, Any]:
    """Return the number of heads, and the root of the tree that has them in the order of names."""
    entries = {at: encode_head(name, heads[name]) for at, name in enumerate(sorted(heads))}
    root = compute_root(len(entries), entries, iter(()))
    return {"count": len(entries), "root": f"sha256:{root.hex()}"}
