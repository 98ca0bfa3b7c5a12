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
    check_erasure,
    check_kept,
    check_opened,
    check_part,
    check_words,
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
    ("entry", "named"),
    [
        ({"first": 0, "last": 2}, "the key of 0 to 2 is none of the tree"),
        ({"first": 1, "last": 2}, "the key of 1 to 2 is none of the tree"),
        ({"first": True, "last": 1}, "its first leaf of a key is not a number"),
        ({"first": 0, "last": LEAF_COUNT}, "its last leaf of a key is not a number"),
        ({"first": -1, "last": 0}, "its first leaf of a key is not a number"),
        ({"first": "0", "last": 3}, "its first leaf of a key is not a number"),
        ({"first": 0, "last": 3, "key": "0" * 64}, "its fields are not"),
        ({"first": 0, "last": 3, "hash": "sha256:0"}, "is no digest"),
    ],
)
def test_list_of_keys_that_is_none_of_a_tree_is_refused(entry: dict[str, Any], named: str) -> None:
    part = build_part([4, 5], "s:4-5")
    part.stated["keys"] = [{"hash": "sha256:" + "0" * 64, **entry}]
    with pytest.raises(VerificationFailure, match=named):
        check_kept(part)


def test_erased_event_that_opens_by_what_is_left_of_its_keys_is_found() -> None:
    """As of a service that seals under fewer keys than it names."""
    kept = list_kept_keys(TREE.remove_leaves([4, 5]), 3)
    header: dict[str, Any] = {"tenant": "t", "sequence": 3, "type": "x", "sealedof": "s:4,6"}
    for leaf, is_found in ((6, True), (4, False)):
        key = derive_box_key(TREE.derive_covering_keys([range(leaf, leaf + 1)]))
        box = seal_box(key, b"event t 3 x s:4,6", b"words")
        part = build_part([4, 5], "s:4-5", header | {"sealed": b64encode(box).decode()})
        part.chain.erased[3] = header["sealedof"]
        if is_found:
            with pytest.raises(VerificationFailure, match="event 3: it opens by the keys"):
                check_opened(part, build_left_keys(kept))
        else:
            assert (
                check_opened(part, build_left_keys(kept)) == "0 events, and nothing that is erased"
            )


def build_erasure(leaves: str, *turns: tuple[int, str]) -> ReceiptPart:
    """Return a session whose record says that these leaves are those of these turns."""
    named = [{"turn": turn, "of": of} for turn, of in turns]
    record = {"generation": 1, "record_before": "a", "record_after": "b"}
    data = {"leaves": leaves, "turns": named, "reason": "asked"}
    kind = "turnlog.erasure-begun.v1"
    begun = {"type": kind, "time": "", "actor": "", "prevstreamseq": 4, "data": data}
    ended = {"type": "turnlog.content-erased.v1", "data": {"begun": 1, **record}}
    stated = {"session": "s", "begun": 1, "ended": 2, "leaves": leaves, "turns": named, **record}
    chain = EventChain(events=[begun, ended])
    return ReceiptPart(stated={**stated, "before": None}, chain=chain, box_keys={})


ASKED = {"session": "s", "at": "", "by": "", "reason": "asked"}


@pytest.mark.parametrize(
    ("leaves", "turns"),
    [
        ("s:4-5", [(2, "turn")]),
        ("s:4,7", [(2, "text"), (3, "work")]),
        ("s:4-7;origin:2", [(2, "turn"), (3, "turn")]),
        (f"s:0-{LEAF_COUNT - 1}", []),
    ],
)
def test_keys_of_the_turns_of_an_erasure_are_accepted(
    leaves: str, turns: list[tuple[int, str]]
) -> None:
    found = check_erasure(build_erasure(leaves, *turns), ASKED)
    assert found == "begun by event 1, ended by event 2"


@pytest.mark.parametrize(
    ("leaves", "turns"),
    [
        ("s:4", [(2, "turn")]),
        ("s:4-5", [(2, "text")]),
        ("s:4-5", [(3, "turn")]),
        ("s:4-5", []),
        ("other:4-5", [(2, "turn")]),
    ],
)
def test_keys_of_other_turns_than_those_of_an_erasure_are_found(
    leaves: str, turns: list[tuple[int, str]]
) -> None:
    with pytest.raises(VerificationFailure, match="its keys are not those of its turns"):
        check_erasure(build_erasure(leaves, *turns), ASKED)


@pytest.mark.parametrize("sealed_of", ["s:900", None])
def test_words_of_an_erased_turn_under_other_keys_or_none_are_found(sealed_of: str | None) -> None:
    submitted: dict[str, Any] = {
        "type": "turnlog.turn-submitted.v1",
        "data": {"turn": 2, "text": {"text": "words"}},
    }
    if sealed_of:
        submitted |= {"sealed": "", "sealedof": sealed_of}
    part = build_part([4, 5], "s:4-5", submitted)
    part.stated.update(leaves="s:4-5", events=[], ended=2, turns=[{"turn": 2, "of": "turn"}])
    with pytest.raises(VerificationFailure, match="event 3: words of an erased turn are under"):
        check_words(part)
    part.stated["turns"] = [{"turn": 2, "of": "work"}]
    assert check_words(part).startswith("0 events, exactly those in the receipt")


def test_event_that_opens_by_another_key_than_those_that_are_left_is_found() -> None:
    kept = list_kept_keys(TREE.remove_leaves([4, 5]), 3)
    event = {"type": "x", "sealed": "", "sealedof": "s:6"}
    part = build_part([4, 5], "s:4-5", event)
    key = derive_box_key(TREE.derive_covering_keys([range(6, 7)]))
    for found, is_sound in ((key, True), (bytes(32), False)):
        opened = ReceiptPart(stated=part.stated, chain=part.chain, box_keys={"3": found.hex()})
        if is_sound:
            assert check_opened(opened, build_left_keys(kept)).startswith("1 events, and nothing")
        else:
            with pytest.raises(VerificationFailure, match="event 3: it opens by another key"):
                check_opened(opened, build_left_keys(kept))


def test_erasure_of_an_earlier_release_leaves_open_what_keys_are_left() -> None:
    part = build_part([4, 5], "s:4-5")
    del part.chain.events[1]["data"]["keys_left"]
    part.chain.heads = ["sha256:1", "sha256:2"]
    part.stated.update(ended=2, before=None, head={"sequence": 2, "hash": "sha256:2"}, keys=[])
    check_part(part, {"receipt": {"session": "s"}}, LeftKeys())
    assert part.unshown == ["session s: an earlier release did not note what keys are left"]
