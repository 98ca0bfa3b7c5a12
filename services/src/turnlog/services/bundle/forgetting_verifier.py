"""Checks that words were forgotten: `python3 -I verify_forgetting.py BUNDLE... receipt.json`.

It needs nothing but Python's standard library, uses no network and trusts nothing it reads. A
receipt says what an erasure reached, and somebody signed it. A bundle is a folder with the events
of a session as they are stored. From these it shows that the record is whole, that every prompt
without the erased words is the one that was sent, that the others are exactly those in the receipt,
and that no key is left that opens them. The exit code is 0 if all of this is shown, 6 if nothing
contradicts it and something could not be shown, and 5 if anything differs. Needs Python 3.10 or
later.
"""

from __future__ import annotations

import argparse
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from turnlog.services.bundle.check_lines import (
    MALFORMED,
    VerificationFailure,
    compute_digest,
    describe_error,
    encode_canonical,
    escape_text,
    run_check,
)
from turnlog.services.bundle.sealed_events import (
    ERASURE_TYPE,
    decrypt_box,
    has_common_key,
    iterate_runs,
)
from turnlog.services.bundle.strict_files import (
    NODE_FORM,
    check_signatures,
    parse_hash,
    read_json,
    require_fields,
    require_number,
)
from turnlog.services.bundle.verifier import (
    EXIT_FAILED,
    EXIT_UNWITNESSED,
    SUBMISSION_TYPES,
    EventChain,
    check_record,
    open_bundle,
)

MAX_RECEIPT = 64 * 1024 * 1024  # Bytes of a receipt
# Keys of a session: 0 is its own, 2t what was submitted with turn t, 2t+1 the rest
LEAVES = 1 << 21
RECEIPT_FIELDS = {
    *("format", "noted", "tenant", "session", "erasure", "at", "by", "reason"),
    *("sessions", "kept_elsewhere"),
}
PART_FIELDS = {
    *("session", "begun", "ended", "turns", "leaves", "events", "calls", "repeating_turns"),
    *("generation", "record_before", "record_after", "head", "before", "keys_left", "keys"),
}
CALL_TYPE = "turnlog.context-assembled.v1"
ERASED_TYPE = "turnlog.content-erased.v1"
Run = tuple[int, int]
"""The first and the last of some leaves."""


@dataclass(kw_only=True)
class ReceiptPart:
    """What a receipt states of one session, and the events of that session."""

    stated: dict[str, Any]
    chain: EventChain
    box_keys: Mapping[str, str]
    """The keys that the bundle has, by the sequence of their event."""
    unshown: list[str] = field(default_factory=list[str])

    @property
    def size(self) -> int:
        return len(self.chain.events)

    def get_event(self, sequence: object, kind: str) -> dict[str, Any]:
        """Return an event of a type; raise where there is another one."""
        place = require_number(sequence, 1, self.size, "sequence")
        event = self.chain.events[place - 1]
        if event["type"] != kind:
            raise VerificationFailure(f"event {place}: it is of type {event['type']}")
        return event

    def iterate_noted(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the events that the receipt covers, each after its sequence."""
        yield from enumerate(self.chain.events[: self.stated["head"]["sequence"]], 1)

    def list_ended(self) -> list[dict[str, Any]]:
        """Return the data of what ended an erasure, as far as the receipt covers it."""
        return [each["data"] for _, each in self.iterate_noted() if each["type"] == ERASED_TYPE]

    def list_erased_runs(self, *, ended: bool) -> list[Run]:
        """Return the leaves of this session that erasures name, or only those that have ended."""
        done = {data["begun"] for data in self.list_ended()}
        return [
            (first, last)
            for place, event in self.iterate_noted()
            if event["type"] == ERASURE_TYPE and (place in done or not ended)
            for session, first, last in iterate_runs(event["data"]["leaves"])
            if session == self.stated["session"]
        ]


# The receipt, and the record that it is about.


def check_receipt(signed: dict[str, Any], trusted: str | None) -> str:
    """Check the form of a receipt, its signatures, and that the named key is among them."""
    require_fields(signed, {"receipt", "signatures"}, {"receipt", "signatures", "keys"})
    receipt = signed["receipt"]
    keys = check_signatures(receipt, signed["signatures"], trusted, "turnlog-receipt/1")
    require_fields(receipt, RECEIPT_FIELDS)
    for part in receipt["sessions"]:
        require_fields(part, PART_FIELDS)
    names = [part["session"] for part in receipt["sessions"]]
    root = receipt["sessions"][0]
    if len(set(names)) < len(names) or (names[0], root["begun"]) != (
        receipt["session"],
        receipt["erasure"],
    ):
        raise VerificationFailure("its sessions are not those of its erasure")
    what = ", ".join(describe_turn(each) for each in root["turns"]) or "all words"
    return (
        f"{what} of session {receipt['session']} of tenant {receipt['tenant']},"
        f" noted {receipt['noted']}, signed by {', '.join(keys)}"
    )


def describe_turn(erased: dict[str, Any]) -> str:
    words = {"text": "the text of", "work": "what came of", "turn": "all of"}
    return f"{words[erased['of']]} turn {erased['turn']}"


def check_place(part: ReceiptPart) -> str:
    """Compare the events with those that the receipt notes: the last one, and one before."""
    heads, head, before = part.chain.heads, part.stated["head"], part.stated["before"]
    require_number(head["sequence"], part.stated["ended"], 2**53, "last event")
    for noted in filter(None, (before, head)):
        place = require_number(noted["sequence"], 1, 2**53, "sequence")
        if place <= part.size and heads[place - 1] != noted["hash"]:
            raise VerificationFailure(f"event {place}: it is not the one that the receipt notes")
    later = part.size - head["sequence"]
    if later >= 0:
        more = f"; {later} came later" if later else ""
        return f"the first {head['sequence']} are those that were signed{more}"
    name = f"session {part.stated['session']}"
    ends = f"its bundle ends at event {part.size}"
    if part.size >= part.stated["ended"]:
        note = f"{name}: {ends}, and event {head['sequence']} was signed: take a newer bundle"
    else:
        note = f"{name}: {ends}, before it was erased: whoever has this bundle reads the words"
    part.unshown.append(note)
    if before and part.size >= before["sequence"]:
        return f"the first {before['sequence']} are those that were signed"
    part.unshown.append(f"{name}: no event of its bundle was signed with the receipt")
    return f"{ends}, and the receipt notes event {head['sequence']}"


def check_erasure(part: ReceiptPart, receipt: dict[str, Any]) -> str:
    """Compare what the receipt states with the events that began and ended the erasure."""
    stated = part.stated
    begun = part.get_event(stated["begun"], ERASURE_TYPE)
    ended = part.get_event(stated["ended"], ERASED_TYPE)
    found = {
        "leaves": begun["data"]["leaves"],
        "turns": begun["data"].get("turns", []),
        "begun": ended["data"]["begun"],
        **{name: ended["data"][name] for name in ("generation", "record_before", "record_after")},
    }
    told = {"at": begun["time"], "by": begun["actor"], "reason": begun["data"]["reason"]}
    is_root = stated["session"] == receipt["session"]
    stated_here = {**stated, **(receipt if is_root else {})}
    for name, value in {**found, **(told if is_root else {})}.items():
        if stated_here[name] != value:
            raise VerificationFailure(f"event {stated['begun']}: the receipt states another {name}")
    before = stated["before"]["sequence"] if stated["before"] else 0
    batch = part.chain.events[before : stated["begun"]]
    if not batch or any("prevstreamseq" in each for each in batch[1:]):
        raise VerificationFailure(f"event {before}: it is not the one before the erasure")
    runs = iterate_runs(stated["leaves"])
    own = [(first, last) for session, first, last in runs if session == stated["session"]]
    if merge_runs(own) != merge_runs(list(list_turn_leaves(stated["turns"]))):
        raise VerificationFailure(f"event {stated['begun']}: its keys are not those of its turns")
    return f"begun by event {stated['begun']}, ended by event {stated['ended']}"


def list_turn_leaves(turns: Sequence[dict[str, Any]]) -> Iterator[Run]:
    """Yield the leaves of what is erased of turns; all of them where no turn is named."""
    if not turns:
        yield 0, LEAVES - 1
    for each in turns:
        leaf = 2 * int(each["turn"])
        yield from ((leaf, leaf),) if each["of"] != "work" else ()
        yield from ((leaf + 1, leaf + 1),) if each["of"] != "text" else ()


def check_words(part: ReceiptPart) -> str:
    """Compare the events under the erased keys with those in the receipt."""
    stated, leaves = part.stated, str(part.stated["leaves"])
    covered = dict(part.iterate_noted())
    reached = {
        place: {"sequence": place, "id": event["id"], "type": event["type"]}
        for place, event in covered.items()
        if "sealed" in event and has_common_key(str(event["sealedof"]), leaves)
    }
    listed = {each["sequence"]: each for each in stated["events"]}
    for place in sorted({*reached, *listed}):
        if place not in listed:
            detail = "it is under an erased key, and the receipt leaves it out"
            raise VerificationFailure(f"event {place}: {detail}")
        if listed[place] != reached.get(place):
            detail = "the receipt names it as erased, and it is another or under no erased key"
            raise VerificationFailure(f"event {place}: {detail}")
    if len(listed) != len(stated["events"]):
        raise VerificationFailure("the receipt names an event twice")
    for place, event in covered.items():
        if place not in reached and is_erased_text(event, stated["turns"]):
            raise VerificationFailure(
                f"event {place}: words of an erased turn are under other keys"
            )
    if part.size < stated["ended"]:
        return f"{len(reached)} events, exactly those in the receipt"
    opened = [place for place in reached if place not in part.chain.erased]
    if opened:
        raise VerificationFailure(
            f"event {opened[0]}: the bundle has a key for it, so its words can be read"
        )
    return f"{len(reached)} events, exactly those in the receipt; there is no key for any of them"


def is_erased_text(event: dict[str, Any], turns: Sequence[dict[str, Any]]) -> bool:
    """Return whether an event has what was submitted with a turn whose text is erased."""
    gone = {each["turn"] for each in turns if each["of"] != "work"}
    data = event["data"]
    is_erased = data.get("turn") in gone or not turns
    return event["type"] in SUBMISSION_TYPES and is_erased and bool(data.get("text"))


def check_calls(part: ReceiptPart) -> str:
    """Compare the calls whose prompts cannot be read with those in the receipt."""
    stated, erased = part.stated, {each["sequence"] for each in part.stated["events"]}
    calls = [
        (place, event["data"])
        for place, event in part.iterate_noted()
        if event["type"] == CALL_TYPE
    ]
    gone = [data for place, data in calls if place in erased]
    named = [data["call"] for data in gone]
    if named != stated["calls"]:
        first = min({*named} ^ {*stated["calls"]}, default="order of calls")
        raise VerificationFailure(f"{first}: the receipt and the record differ")
    own = {each["turn"] for each in stated["turns"] if each["of"] != "text"}
    repeating = sorted({data["turn"] for data in gone} - own) if stated["turns"] else []
    if repeating != stated["repeating_turns"]:
        raise VerificationFailure("the receipt states other turns whose replies may repeat words")
    whole = [place for place, _ in calls if place not in {*erased, *part.chain.erased}]
    others = f"{len(whole)} had none of them, and are as they were sent"
    other = len(calls) - len(named) - len(whole)
    others += f"; {other} were erased otherwise" if other else ""
    lost = "" if part.size < stated["ended"] else " and cannot be rebuilt"
    return f"{len(named)} had the words{lost}: {', '.join(named) or 'none'}; {others}"


def check_sessions(receipt: dict[str, Any], parts: Sequence[ReceiptPart]) -> str:
    """Check that the sessions are those that the erasure reached, one from the other."""
    stated = {each["session"]: each["begun"] for each in receipt["sessions"]}
    for part in parts:
        name, begun = part.stated["session"], part.stated["begun"]
        data = part.get_event(begun, ERASURE_TYPE)["data"]
        for reached in data.get("reached", ()):
            if reached not in stated:
                detail = f"event {begun} reached session {reached}, and the receipt leaves it out"
                raise VerificationFailure(f"session {name}: {detail}")
        origin: dict[str, Any] = data.get("origin") or {}
        cause = (origin.get("session"), origin.get("sequence"))
        if name != receipt["session"] and cause not in stated.items():
            raise VerificationFailure(f"session {name}: its erasure is not part of this one")
    return f"{len(stated)} reached, as these events say"


# The keys that are left: nodes of a binary tree, from each of which the leaves below it follow.


def check_kept(part: ReceiptPart) -> str:
    """Check that the keys that are left are those of all leaves but the erased ones."""
    entries, end = part.stated["keys"], -1
    covered = list[Run]()
    for each in entries:
        require_fields(each, {"first", "last", "hash"})
        first = require_number(each["first"], end + 1, LEAVES - 1, "first leaf of a key")
        end = require_number(each["last"], first, LEAVES - 1, "last leaf of a key")
        size = end - first + 1
        if size & (size - 1) or first % size:
            raise VerificationFailure(f"the key of {first} to {end} is none of the tree")
        parse_hash(each["hash"])
        covered.append((first, end))
    for first, last in part.list_erased_runs(ended=True):
        left = next((run for run in covered if run[0] <= last and first <= run[1]), None)
        if left:
            leaf = describe_leaf(max(first, left[0]))
            raise VerificationFailure(f"a key of {leaf} is left, which was erased")
    begun = merge_runs(part.list_erased_runs(ended=False))
    for first, last in iterate_gaps(covered):
        if not any(start <= first and last <= stop for start, stop in begun):
            lost = next(iterate_ends(first, last, begun))
            detail = "is gone, and no erasure says so"
            raise VerificationFailure(f"the key of {describe_leaf(lost)} {detail}")
    noted = {data.get("keys_left") for data in part.list_ended()}
    if compute_digest(encode_canonical(entries)) not in noted & {part.stated["keys_left"]}:
        raise VerificationFailure("they are not those that the record notes after the erasure")
    if not entries:
        return "none, as the record notes"
    gone = list(iterate_gaps(covered))
    return f"{len(entries)}, of everything but {describe_runs(gone)}, as the record notes"


def iterate_gaps(covered: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs of leaves that are not covered."""
    begin = 0
    for first, last in [*covered, (LEAVES, LEAVES)]:
        if begin < first:
            yield begin, first - 1
        begin = last + 1


def iterate_ends(first: int, last: int, runs: Sequence[Run]) -> Iterator[int]:
    """Yield leaves of a run that are in none of others; one at least if there is any."""
    for leaf in (first, *(stop + 1 for _, stop in runs)):
        if first <= leaf <= last and not any(a <= leaf <= b for a, b in runs):
            yield leaf


def merge_runs(runs: Sequence[Run]) -> list[Run]:
    """Return runs in order, those that touch or overlap as one."""
    merged = list[Run]()
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def describe_runs(runs: Sequence[Run]) -> str:
    """Describe the first leaves of runs in words."""
    many = [leaf for first, last in runs for leaf in range(first, min(last, first + 8) + 1)]
    shown = ", ".join(map(describe_leaf, many[:8]))
    return f"{shown}, and more" if many[8:] else shown


def describe_leaf(leaf: int) -> str:
    if leaf < 2:  # noqa: PLR2004 - turns are counted from 1
        return "the session itself"
    return f"what {'came of' if leaf % 2 else 'was submitted with'} turn {leaf // 2}"


@dataclass
class LeftKeys:
    """The keys that the file of the receipt has, by session, each after its leaves."""

    nodes: dict[str, list[tuple[int, int, bytes]]] = field(
        default_factory=dict[str, list[tuple[int, int, bytes]]]
    )

    def derive_node(self, session: str, first: int, size: int) -> bytes | None:
        """Return the node above some leaves; None where it follows from no key here."""
        for start, last, node in self.nodes.get(session, ()):
            if start <= first and first + size - 1 <= last:
                width, begin, found = last - start + 1, start, node
                while width > size:
                    width //= 2
                    side = int(first >= begin + width)
                    begin += width * side
                    found = sha256(b"turnlog key %d" % side + found).digest()
                return found
        return None

    def derive_box_key(self, runs: Sequence[tuple[str, int, int]]) -> bytes | None:
        """Return the key of what is sealed under leaves; None if one of them has none here."""
        found = list[bytes]()
        for session, first, last in runs:
            for begin, size in iterate_covering(first, last + 1):
                node = self.derive_node(session, begin, size)
                if node is None:
                    return None
                found.append(node)
        return blake2b(b"".join(found), digest_size=32, person=b"turnlog box").digest()

    def select_runs(self, runs: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """Return what of these leaves has a key here."""
        return [
            (session, max(first, start), min(last, stop))
            for session, first, last in runs
            for start, stop in merge_runs([each[:2] for each in self.nodes.get(session, ())])
            if first <= stop and start <= last
        ]


def iterate_covering(first: int, end: int) -> Iterator[Run]:
    """Yield first leaf and number of leaves of the largest nodes that make up a run."""
    while first < end:
        size = 1 << (end - first).bit_length() - 1
        if first:
            size = min(size, first & -first)
        yield first, size
        first += size


def read_left_keys(signed: dict[str, Any], left: LeftKeys) -> str:
    """Collect the keys in the file; raise for one that is not in the signed list."""
    listed = {
        (part["session"], f"{each['first']}-{each['last']}"): each
        for part in signed["receipt"]["sessions"]
        for each in part["keys"]
    }
    for session, keys in signed["keys"].items():
        for name, text in keys.items():
            each = listed.get((session, name))
            if each is None or not NODE_FORM.fullmatch(text):
                raise VerificationFailure(f"session {session}: {name!a} is no key in the receipt")
            node = bytes.fromhex(text)
            if compute_digest(b"turnlog kept key" + node) != each["hash"]:
                raise VerificationFailure(
                    f"session {session}: {name} is another key in the receipt"
                )
            left.nodes.setdefault(session, []).append((each["first"], each["last"], node))
    return f"{sum(map(len, left.nodes.values()))}, as the receipt names them"


def check_opened(part: ReceiptPart, left: LeftKeys) -> str:
    """Check that the keys that are left open what the bundle opens, and nothing that is erased."""
    begun = [each["data"] for _, each in part.iterate_noted() if each["type"] == ERASURE_TYPE]
    opened = later = since = 0
    for place, event in part.iterate_noted():
        if "sealed" not in event:
            continue
        runs = list(iterate_runs(event["sealedof"]))
        key = left.derive_box_key(runs)
        if any(has_common_key(event["sealedof"], data["leaves"]) for data in begun):
            some = left.select_runs(runs)
            if key or (some and is_opened(event, left.derive_box_key(some))):
                raise VerificationFailure(f"event {place}: it opens by the keys that are left")
        elif place in part.chain.erased:
            since += key is not None
        elif key is None:
            later += 1
        elif key.hex() != part.box_keys[str(place)]:
            raise VerificationFailure(f"event {place}: it opens by another key than those left")
        else:
            opened += 1
    more = f"; {later} have keys that are not in the file" if later else ""
    more += f"; {since} were erased since then, and these keys open them" if since else ""
    return f"{opened} events, and nothing that is erased{more}"


def is_opened(event: dict[str, Any], key: bytes | None) -> bool:
    """Return whether a key opens the box of an event."""
    parts = (event["tenant"], event["sequence"], event["type"], event["sealedof"])
    place = "event {} {} {} {}".format(*parts).encode()
    try:
        decrypt_box(key or b"", place, b64decode(event["sealed"]))
    except VerificationFailure:
        return False
    return True


# All of it: the bundles first, for what they have is trusted only once their chains are whole.


def collect_parts(
    receipt: dict[str, Any], folders: Sequence[Path]
) -> tuple[bool, list[ReceiptPart]]:
    """Check the bundles; return whether all are sound, and what they have of the sessions."""
    chains, is_sound = dict[str, tuple[EventChain, Mapping[str, str]]](), True
    for folder in folders:
        bundle = open_bundle(folder)
        if bundle.manifest["tenant"] != receipt["tenant"]:
            raise VerificationFailure(f"{folder.name}: it is of tenant {bundle.manifest['tenant']}")
        is_sound &= check_record(bundle)
        if (folder / "checkpoint.json").exists():
            is_sound &= run_check("checkpoint", bundle.check_checkpoint, None)
        for each in bundle.manifest["sessions"]:
            if each["session"] in chains:
                raise VerificationFailure(f"session {each['session']} is in two bundles")
            found = bundle.sessions[each["session"]], each.get("keys", {})
            chains[each["session"]] = found
    if receipt["session"] not in chains:
        raise VerificationFailure(f"no bundle here has session {receipt['session']}")
    parts = list[ReceiptPart]()
    for each in receipt["sessions"]:
        if each["session"] in chains:
            chain, keys = chains[each["session"]]
            parts.append(ReceiptPart(stated=each, chain=chain, box_keys=keys))
    return is_sound, parts


def check_part(part: ReceiptPart, signed: dict[str, Any], left: LeftKeys) -> bool:
    """Check what the receipt states of one session; return whether all is sound."""
    name = part.stated["session"]
    sound = [run_check(f"events of {name}", check_place, part)]
    is_after = part.size >= part.stated["ended"]
    if is_after:
        sound.append(run_check(f"erasure of {name}", check_erasure, part, signed["receipt"]))
    sound.append(run_check(f"words of {name}", check_words, part))
    sound.append(run_check(f"prompts of {name}", check_calls, part))
    if part.size < part.stated["head"]["sequence"]:
        return all(sound)
    if not part.list_ended()[-1].get("keys_left"):
        part.unshown.append(f"session {name}: an earlier release did not note what keys are left")
        return all(sound)
    sound.append(run_check(f"keys left of {name}", check_kept, part))
    if part.stated["session"] in left.nodes:
        sound.append(run_check(f"what they open of {name}", check_opened, part, left))
    elif part.stated["keys"]:
        part.unshown.append(f"session {name}: what the keys open that are left; they are not here")
    return all(sound)


def check_forgetting(signed: dict[str, Any], folders: Sequence[Path], trusted: str | None) -> int:
    """Run all checks, print a line for each, and return the exit code."""
    if not run_check("receipt", check_receipt, signed, trusted):
        return EXIT_FAILED
    receipt = signed["receipt"]
    is_sound, parts = collect_parts(receipt, folders)
    if not is_sound:
        return EXIT_FAILED
    left = LeftKeys()
    sound = [run_check("keys", read_left_keys, signed, left)] if "keys" in signed else []
    sound += [check_part(part, signed, left) for part in parts]
    ended = [part for part in parts if part.size >= part.stated["ended"]]
    sound.append(run_check("sessions", check_sessions, receipt, ended))
    here = {part.stated["session"] for part in parts}
    unshown = [note for part in parts for note in part.unshown]
    unshown += [
        f"session {each['session']}: it is in no bundle here, and nothing of it is checked"
        for each in receipt["sessions"]
        if each["session"] not in here
    ]
    for note in unshown:
        print(escape_text(f"  --    {note}"))
    if not all(sound):
        return EXIT_FAILED
    for each in ("copies of the keys that somebody made before", *receipt["kept_elsewhere"]):
        print(escape_text(f"  ..    nobody can show: {each}"))
    return EXIT_UNWITNESSED if unshown else 0


def verify_forgetting(words: Sequence[str]) -> int:
    """Check bundles against a receipt, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description="Checks that words were forgotten.")
    parser.add_argument("bundle", type=Path, nargs="+", help="the folder of a bundle")
    parser.add_argument("receipt", type=Path, help="the signed receipt of the erasure")
    parser.add_argument("--key", help="the signer's public key, as you have it from the signer")
    arguments = parser.parse_args(words)
    try:
        signed = read_json(arguments.receipt, MAX_RECEIPT)
        code = check_forgetting(signed, arguments.bundle, arguments.key)
    except (VerificationFailure, OSError, *MALFORMED) as error:
        print(escape_text(f"FAILED  {describe_error(error)}"))
        code = EXIT_FAILED
    print({0: "forgotten", EXIT_UNWITNESSED: "NOT ALL SHOWN"}.get(code, "NOT VERIFIED"))
    return code


if __name__ == "__main__":
    sys.exit(verify_forgetting(sys.argv[1:]))
