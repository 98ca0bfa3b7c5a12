"""Parts of the verifier of receipts, against the keys of the product and on odd values."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.seals.boxes import seal_box
from turnlog.events.seals.kept_keys import KeptKey, compute_kept_digest, list_kept_keys
from turnlog.events.seals.key_tree import LEAF_COUNT, KeyTree, LeafErased, derive_box_key
from turnlog.events.seals.leaf_sets import format_leaves, parse_leaf_runs
from turnlog.services.bundle.check_lines import VerificationFailure
from turnlog.services.bundle.forgetting_verifier import (
    LEAVES,
    LeftKeys,
    ReceiptPart,
    check_kept,
    check_opened,
    read_left_keys,
)
from turnlog.services.bundle.sealed_events import iterate_runs
from turnlog.services.bundle.verifier import EventChain

TREE = KeyTree.create(bytes(range(32)))

SETS = st.sets(st.integers(0, 60), min_size=1, max_size=9)


def build_left_keys(kept: list[KeptKey]) -> LeftKeys:
    """Return the keys in a file whose receipt names them."""
    keys = {f"{each.leaves.start}-{each.leaves.stop - 1}": each.node.hex() for each in kept}
    listed = [each.describe() for each in kept]
    left = LeftKeys()
    stated = {"sessions": [{"session": "s", "keys": listed}]}
    read_left_keys({"receipt": stated, "keys": {"s": keys}}, left)
    return left


@given(SETS, SETS, st.integers(0, 30))
def test_stranger_derives_the_keys_of_boxes_as_the_service_does(
    removed: set[int], leaves: set[int], last_turn: int
) -> None:
    tree = TREE.remove_leaves(removed)
    name = format_leaves({"s": frozenset(leaves)})
    left = build_left_keys(list_kept_keys(tree, last_turn))
    found = left.derive_box_key(list(iterate_runs(name)))
    runs = parse_leaf_runs(name) or {}
    try:
        own = derive_box_key(tree.derive_covering_keys(runs["s"]))
    except LeafErased:
        assert found is None
        return
    later = 2 * last_turn + 2
    is_split = any(run.start < later < run.stop for run in runs["s"])
    assert found == own or (found is None and is_split), "a run on both sides needs a node of both"


def build_part(removed: list[int], erased: str, *events: dict[str, Any]) -> ReceiptPart:
    """Return a session in which turn 2 was erased, and of whose keys some were removed."""
    kept = list_kept_keys(TREE.remove_leaves(removed), 3)
    begun = {"type": "turnlog.erasure-begun.v1", "data": {"leaves": erased}}
    ended = {
        "type": "turnlog.content-erased.v1",
        "data": {"begun": 1, "keys_left": compute_kept_digest(kept)},
    }
    stated = {
        "session": "s",
        "head": {"sequence": 2 + len(events)},
        "keys_left": compute_kept_digest(kept),
        "keys": [each.describe() for each in kept],
    }
    chain = EventChain(events=[begun, ended, *events])
    return ReceiptPart(stated=stated, chain=chain, box_keys={})


def test_key_that_the_service_did_not_remove_is_found_although_the_record_notes_it() -> None:
    assert check_kept(build_part([4, 5], "s:4-5")).startswith("20, of everything but ")
    with pytest.raises(VerificationFailure, match="key of what came of turn 2 is left"):
        check_kept(build_part([4], "s:4-5"))


@pytest.mark.parametrize(
    ("removed", "lost"),
    [
        ([4, 5, 6], "what was submitted with turn 3"),
        ([0, 4, 5], "the session itself"),
        ([4, 5, LEAF_COUNT - 1], "what came of turn 1048575"),
    ],
)
def test_key_that_is_gone_without_an_erasure_is_found(removed: list[int], lost: str) -> None:
    with pytest.raises(VerificationFailure, match=f"the key of {lost} is gone, and no erasure"):
        check_kept(build_part(removed, "s:4-5"))


def test_whole_session_has_no_key_left() -> None:
    assert LEAVES == LEAF_COUNT
    part = build_part([], f"s:0-{LEAF_COUNT - 1}")
    with pytest.raises(VerificationFailure, match="key of the session itself is left"):
        check_kept(part)
    part.stated.update(keys=[], keys_left=compute_kept_digest([]))
    part.chain.events[1]["data"]["keys_left"] = compute_kept_digest([])
    assert check_kept(part) == "none, as the record notes"


@pytest.mark.parametrize(
    "entry",
    [
        {"first": 0, "last": 2},
        {"first": 1, "last": 2},
        {"first": True, "last": 1},
        {"first": 0, "last": LEAF_COUNT},
        {"first": -1, "last": 0},
        {"first": "0", "last": 3},
        {"first": 0, "last": 3, "key": "0" * 64},
        {"first": 0, "last": 3, "hash": "sha256:0"},
    ],
)
def test_list_of_keys_that_is_none_of_a_tree_is_refused(entry: dict[str, Any]) -> None:
    part = build_part([4, 5], "s:4-5")
    part.stated["keys"] = [{"hash": "sha256:" + "0" * 64, **entry}]
    with pytest.raises(VerificationFailure):
        check_kept(part)


def test_erased_event_that_opens_by_what_is_left_of_its_keys_is_found() -> None:
    """As of a service that seals under fewer keys than it names."""
    kept = list_kept_keys(TREE.remove_leaves([4, 5]), 3)
    header = {"tenant": "t", "sequence": 3, "type": "x", "sealedof": "s:4,6"}
    for leaf, is_found in ((6, True), (4, False)):
        key = derive_box_key(TREE.derive_covering_keys([range(leaf, leaf + 1)]))
        box = seal_box(key, b"event t 3 x s:4,6", b"words")
        part = build_part([4, 5], "s:4-5", header | {"sealed": b64encode(box).decode()})
        part.chain.erased[3] = "s:4,6"
        if is_found:
            with pytest.raises(VerificationFailure, match="event 3: it opens by the keys"):
                check_opened(part, build_left_keys(kept))
        else:
            assert (
                check_opened(part, build_left_keys(kept)) == "0 events, and nothing that is erased"
            )
