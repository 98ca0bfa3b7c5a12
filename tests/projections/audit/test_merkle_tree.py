"""Merkle trees have the roots of RFC 9162, and paths lead to them from any of the entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.audit.verify.merkle_tree import (
    ConsistencyPath,
    MerkleTree,
    build_path,
    compute_tree_root,
)
from turnlog.services.bundle.merkle_paths import compute_both_roots, compute_root

# The vectors of the reference implementation of certificate transparency.
ENTRIES = [
    bytes.fromhex(each)
    for each in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]

ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


@pytest.mark.parametrize("size", range(9))
def test_root_is_that_of_the_reference_implementation(size: int) -> None:
    assert compute_tree_root(ENTRIES[:size]).hex() == ROOTS[size]
    whole = dict(enumerate(ENTRIES[:size]))
    assert compute_root(size, whole, iter(())).hex() == ROOTS[size]


SIZES = st.integers(1, 70)


@given(SIZES, st.data())
def test_path_of_any_entries_leads_to_the_root_and_of_others_does_not(
    size: int, data: st.DataObject
) -> None:
    entries = [bytes([number]) for number in range(size)]
    places = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    path, root = build_path(entries, places), compute_tree_root(entries)
    chosen = {place: entries[place] for place in places}
    nodes = iter(path)
    assert compute_root(size, chosen, nodes) == root
    assert next(nodes, None) is None, "every node is used"
    altered = data.draw(st.sampled_from(sorted(places)))
    assert compute_root(size, {**chosen, altered: b"other"}, iter(path)) != root
    if path:
        at = data.draw(st.integers(0, len(path) - 1))
        other = [*path[:at], bytes(32), *path[at + 1 :]]
        assert compute_root(size, chosen, iter(other)) != root


@given(st.integers(1, 2_000), st.data())
def test_path_of_one_entry_has_a_node_for_each_level_at_most(
    size: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, size - 1))
    entries = [number.to_bytes(2) for number in range(size)]
    assert len(build_path(entries, [place])) <= (size - 1).bit_length()


def test_entry_at_another_place_has_another_root() -> None:
    entries = [bytes([number]) for number in range(11)]
    path = build_path(entries, [4])
    for place in set(range(11)) - {4}:
        nodes = iter([*path, *path])
        assert compute_root(11, {place: entries[4]}, nodes) != compute_tree_root(entries)


def build_consistency_path(entries: list[bytes], before: int) -> list[bytes]:
    """Return the nodes by which a tree of all entries continues that of the first ones."""
    tree = MerkleTree()
    for entry in entries[:before]:
        tree.add_entry(entry)
    path = ConsistencyPath(tuple(tree.subtrees), before)
    for entry in entries[before:]:
        path.add_entry(entry)
    return list(path.list_nodes())


def list_rfc_nodes(
    entries: list[bytes], first: int, before: int, end: int
) -> list[tuple[int, bytes]]:
    """Return the nodes of SUBPROOF in RFC 9162, section 2.1.4.1, by position.

    What the RFC leaves out, since its reader has it as the older root, is among them.
    """
    if before == end:
        return [(first, compute_tree_root(entries[first:end]))]
    middle = first + (1 << (end - first - 1).bit_length() - 1)
    if before <= middle:
        right = (middle, compute_tree_root(entries[middle:end]))
        return [*list_rfc_nodes(entries, first, before, middle), right]
    left = (first, compute_tree_root(entries[first:middle]))
    return [left, *list_rfc_nodes(entries, middle, before, end)]


@pytest.mark.parametrize("size", [*range(2, 20), 31, 32, 33])
def test_roots_of_the_first_entries_and_of_all_follow_from_the_nodes_of_the_rfc(size: int) -> None:
    entries = [bytes([number]) for number in range(size)]
    for before in range(1, size):
        path = build_consistency_path(entries, before)
        assert path == [node for _, node in sorted(list_rfc_nodes(entries, 0, before, size))]
        nodes = iter(path)
        roots = compute_both_roots(before, size, nodes)
        assert roots == (compute_tree_root(entries[:before]), compute_tree_root(entries))
        assert next(nodes, None) is None, "every node is used"
    assert build_consistency_path(entries, size) == [], "it did not grow"


@given(st.integers(2, 3_000), st.data())
def test_nodes_of_a_tree_that_grew_are_few_and_each_matters(size: int, data: st.DataObject) -> None:
    before = data.draw(st.integers(1, size - 1))
    entries = [number.to_bytes(2) for number in range(size)]
    path = build_consistency_path(entries, before)
    assert len(path) <= 2 * size.bit_length()
    roots = compute_both_roots(before, size, iter(path))
    at = data.draw(st.integers(0, len(path) - 1))
    altered = compute_both_roots(before, size, iter([*path[:at], bytes(32), *path[at + 1 :]]))
    assert altered[1] != roots[1]
    is_before = at < before.bit_count()
    assert (altered[0] != roots[0]) == is_before
