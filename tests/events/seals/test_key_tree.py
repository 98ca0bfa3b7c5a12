"""The keys of a session: which leaves follow from what is left after some were removed."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.seals.kept_keys import KeptKey, compute_kept_digest, list_kept_keys
from turnlog.events.seals.key_tree import (
    LEAF_COUNT,
    TREE_DEPTH,
    KeyTree,
    LeafErased,
    derive_box_key,
    get_text_leaf,
    get_work_leaf,
)

ROOT = bytes(range(32))

NEAR = st.integers(0, 40)
FAR = st.integers(0, LEAF_COUNT - 1)
LEAVES = st.lists(NEAR | FAR, max_size=12)


def is_derivable(tree: KeyTree, leaf: int) -> bool:
    try:
        run = [range(leaf, leaf + 1)]
        return tree.derive_covering_keys(run) == KeyTree.create(ROOT).derive_covering_keys(run)
    except LeafErased:
        return False


@given(LEAVES, LEAVES, LEAVES)
def test_after_any_punctures_exactly_the_other_leaves_are_derived_and_with_the_same_keys(
    first: list[int], second: list[int], others: list[int]
) -> None:
    tree = KeyTree.create(ROOT).remove_leaves(first)
    tree = KeyTree.decode(tree.encode()).remove_leaves(second)
    gone = {*first, *second}
    neighbours = {leaf ^ bit for leaf in gone for bit in (1, 2, 1 << 20)}
    for leaf in {*gone, *others, *neighbours}:
        assert is_derivable(tree, leaf) == (leaf not in gone)
    again = KeyTree.decode(tree.encode())
    assert again.nodes == tree.nodes
    assert ROOT not in tree.nodes.values() or not gone


@given(st.lists(FAR, max_size=30))
def test_no_node_that_is_left_is_above_or_at_a_removed_leaf(leaves: list[int]) -> None:
    tree = KeyTree.create(ROOT).remove_leaves(leaves)
    for depth, number in tree.nodes:
        assert not any(leaf >> TREE_DEPTH - depth == number for leaf in leaves)


def test_sizes_of_records_are_those_that_erasure_is_planned_with() -> None:
    whole = KeyTree.create(ROOT)
    assert len(whole.encode()) == 37
    assert len(whole.remove_leaves([77]).encode()) == 757
    # A run of removed leaves leaves no more than a path behind.
    assert len(whole.remove_leaves(range(500)).nodes) <= TREE_DEPTH
    scattered = whole.remove_leaves(
        int(sha256(b"%d" % n).hexdigest(), 16) % 4_000 for n in range(100)
    )
    assert len(scattered.encode()) < 20_000


def test_leaves_of_turns_differ_and_a_turn_beyond_the_tree_is_refused() -> None:
    leaves = [0, *(get(turn) for turn in (1, 2, 3) for get in (get_text_leaf, get_work_leaf))]
    assert leaves == [0, 2, 3, 4, 5, 6, 7]
    get_work_leaf(LEAF_COUNT // 2 - 1)
    with pytest.raises(Refused, match="at most 1,048,575 turns"):
        get_text_leaf(LEAF_COUNT // 2)


def test_bytes_that_are_no_tree_are_corrupt() -> None:
    encoded = KeyTree.create(ROOT).encode()
    for broken in (b"", encoded[:-1], b"\2" + encoded[1:]):
        with pytest.raises(Corrupt, match="no tree of keys"):
            KeyTree.decode(broken)


def test_key_of_a_box_needs_all_keys_it_follows_from_in_their_order() -> None:
    one, two = bytes(32), bytes([1]) * 32
    keys = {derive_box_key(each) for each in ([one], [two], [one, two], [two, one])}
    keys.add(derive_box_key([one], b"digest"))
    assert len(keys) == 5


def test_keys_of_a_run_are_those_of_the_fewest_nodes_and_end_with_any_of_its_leaves() -> None:
    tree = KeyTree.create(ROOT)
    assert len(tree.derive_covering_keys([range(LEAF_COUNT)])) == 1
    assert (
        len(tree.derive_covering_keys([range(2, 202)])) == 9
    )  # of 2, 4, 8, 16, 32, 64, 64, 8 and 2
    assert len(tree.derive_covering_keys([range(4, 6)])) == 1
    for leaf in (2, 100, 201):
        with pytest.raises(LeafErased):
            tree.remove_leaves([leaf]).derive_covering_keys([range(2, 202)])
    left = tree.remove_leaves([1, 202]).derive_covering_keys([range(2, 202)])
    assert left == tree.derive_covering_keys([range(2, 202)])


@given(LEAVES, st.integers(0, 20))
def test_kept_keys_cover_every_other_leaf_once_and_no_node_has_turns_on_both_sides(
    leaves: list[int], last_turn: int
) -> None:
    tree = KeyTree.create(ROOT).remove_leaves(leaves)
    kept = list_kept_keys(tree, last_turn)
    covered = [(each.leaves.start, each.leaves.stop) for each in kept]
    assert covered == sorted(covered)
    assert all(end <= first for (_, end), (first, _) in pairwise(covered))
    assert sum(len(each.leaves) for each in kept) == LEAF_COUNT - len(set(leaves))
    assert not any(leaf in each.leaves for leaf in leaves for each in kept)
    later = get_work_leaf(last_turn) + 1
    assert not any(each.leaves.start < later < each.leaves.stop for each in kept)
    for each in kept[:8]:
        run = [each.leaves[:1]]
        assert KeyTree({place_node(each): each.node}).derive_covering_keys(
            run
        ) == tree.derive_covering_keys(run)


def place_node(kept: KeptKey) -> tuple[int, int]:
    depth = TREE_DEPTH - (len(kept.leaves).bit_length() - 1)
    return depth, kept.leaves.start >> TREE_DEPTH - depth


def test_list_of_kept_keys_has_another_digest_for_another_node_and_opens_nothing() -> None:
    tree = KeyTree.create(ROOT).remove_leaves([4, 5])
    kept = list_kept_keys(tree, 3)
    other = list_kept_keys(KeyTree.create(bytes(32)).remove_leaves([4, 5]), 3)
    assert [each.describe() | {"hash": ""} for each in kept] == [
        each.describe() | {"hash": ""} for each in other
    ]
    assert compute_kept_digest(kept) != compute_kept_digest(other)
    listed = str([each.describe() for each in kept])
    assert [(each.leaves.start, each.leaves.stop - 1) for each in kept[:4]] == [
        (0, 3),
        (6, 7),
        (8, 15),
        (16, 31),
    ]
    assert not any(each.node.hex() in listed or each.node.hex() in str(kept) for each in kept)
    assert compute_kept_digest([]) == compute_digest("[]"), "nothing is left of an erased session"
