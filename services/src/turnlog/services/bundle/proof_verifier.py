"""Checks the proof of one call: `python3 -I verify_proof.py proof.json`.

It needs nothing but Python's standard library, uses no network and trusts nothing it reads. A
proof has some events of a session as they are stored, the path from their digests to the root of
all events of the session, the path from that root to the root of all sessions, and a checkpoint
that somebody signed, which has the second root. Whatever is altered in it, moved to another call or
session, or taken from a log that was rewritten, gives another root. The exit code is 0 if all is as
signed, and 5 if anything differs. Needs Python 3.10 or later.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
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
from turnlog.services.bundle.merkle_paths import compute_root, encode_head, summarise_heads
from turnlog.services.bundle.sealed_events import open_event
from turnlog.services.bundle.strict_files import (
    MAX_CHECKPOINT,
    check_signatures,
    parse_hash,
    parse_nodes,
    read_json,
    require_fields,
    require_number,
)

MAX_PROOF = 16 * 1024 * 1024  # Bytes of a proof; most have less than twenty thousand
PROOF_FIELDS = {
    *("format", "session", "call", "request", "events", "path"),
    *("head", "position", "heads_path", "checkpoint", "signatures"),
}
PROMPT_TYPE = "turnlog.context-assembled.v1"
# Events of the turn that a call is for, which name no call
TURN_TYPES = {
    *("turnlog.turn-submitted.v1", "turnlog.turn-queued.v1", "turnlog.turn-completed.v1"),
    *("turnlog.turn-failed.v1", "turnlog.turn-cancelled.v1", "turnlog.reply-redacted.v1"),
}


def check_root(size: int, entries: Mapping[int, bytes], path: Sequence[str], stated: str) -> None:
    """Raise unless entries and path give the stated root, and no node is left."""
    nodes = iter(parse_nodes(path))
    try:
        root = compute_root(size, entries, nodes)
    except (StopIteration, RuntimeError):
        raise VerificationFailure("its path is too short") from None
    if next(nodes, None) is not None:
        raise VerificationFailure("its path is too long")
    if root != parse_hash(stated):
        raise VerificationFailure("its path does not lead to the root")


def check_checkpoint(proof: dict[str, Any], trusted: str | None, own: Path | None) -> str:
    """Check the signatures, that one is by the named key, and compare with the reader's copy."""
    stated = proof["checkpoint"]
    keys = check_signatures(stated, proof["signatures"], trusted)
    if own is not None:
        noted = summarise_heads(read_json(own, MAX_CHECKPOINT)["checkpoint"])
        if encode_canonical(noted) != encode_canonical(stated):
            raise VerificationFailure(f"it is not the one in {own.name}")
    return f"of tenant {stated['tenant']}, noted {stated['at']}, signed by {', '.join(keys)}"


def check_session(proof: dict[str, Any]) -> str:
    """Check that the session ended with this head when the checkpoint was signed."""
    head, sessions = proof["head"], proof["checkpoint"]["sessions"]
    require_fields(head, {"sequence", "hash", "root"})
    position = require_number(proof["position"], 0, sessions["count"] - 1, "position")
    entry = encode_head(proof["session"], head)
    check_root(sessions["count"], {position: entry}, proof["heads_path"], sessions["root"])
    return f"{head['sequence']} events then, one of {sessions['count']} sessions"


def check_events(proof: dict[str, Any]) -> str:
    """Check that the events are the session's at their places, and those of the call."""
    head, entries = proof["head"], dict[int, bytes]()
    size, last = require_number(head["sequence"], 1, 2**53, "sequence"), 0
    for each in proof["events"]:
        require_fields(
            each, {"sequence", "stored"}, {"sequence", "hash"}, {"sequence", "stored", "key"}
        )
        last = require_number(each["sequence"], last + 1, size, "sequence")
        stored = each.get("stored")
        hashed = each["hash"] if stored is None else compute_digest(stored.encode())
        entries[last - 1] = parse_hash(hashed)
        if last == size and hashed != head["hash"]:
            raise VerificationFailure(f"event {last}: it is not the last one that was noted")
    check_root(size, entries, proof["path"], head["root"])
    shown = list_shown(proof)
    turn = find_assembled(proof)["turn"]
    for event in shown:
        place, data, before = event["sequence"], event["data"], entries.get(event["sequence"] - 2)
        own = (proof["checkpoint"]["tenant"], proof["session"])
        if (event["tenant"], event["subject"]) != own:
            raise VerificationFailure(f"event {place}: it belongs to another session")
        of_turn = event["type"] in TURN_TYPES and data.get("turn") == turn
        if data.get("call") != proof["call"] and not of_turn:
            raise VerificationFailure(f"event {place}: it is not of call {proof['call']}")
        if before is not None and event.get("prevhash") != f"sha256:{before.hex()}":
            raise VerificationFailure(f"event {place}: it does not continue the one before")
    hidden = len(entries) - len(shown)
    return f"{len(shown)} in the session's chain" + (f", {hidden} by digest" if hidden else "")


def list_shown(proof: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events that are there with their text; each is at the sequence that it states."""
    shown = list[dict[str, Any]]()
    for each in proof["events"]:
        if "stored" in each:
            event = json.loads(each["stored"])
            if event["sequence"] != each["sequence"]:
                raise VerificationFailure(f"event {each['sequence']}: it states another sequence")
            shown.append(open_event(event, each.get("key")))
    return shown


def find_assembled(proof: dict[str, Any]) -> dict[str, Any]:
    """Return what was recorded of the call's prompt."""
    prompts = [each["data"] for each in list_shown(proof) if each["type"] == PROMPT_TYPE]
    found = [dict(each) for each in prompts if each["call"] == proof["call"]]
    if not found:
        raise VerificationFailure(f"the event with the prompt of call {proof['call']} is missing")
    return found[-1]


def check_request(proof: dict[str, Any], own: Path | None) -> str:
    """Compare the request, and one of the reader's own, with the recorded digest."""
    recorded = find_assembled(proof)["manifest"]["digest"]
    texts = [proof["request"].encode()] if proof["request"] is not None else []
    texts += [own.read_bytes()] if own else []
    for text in texts:
        if compute_digest(text) != recorded:
            raise VerificationFailure("it is not the one that was sent")
    return f"{len(texts[0])} bytes, as they were sent" if texts else f"by digest: {recorded}"


def check_proof(proof: dict[str, Any], arguments: argparse.Namespace) -> bool:
    """Run all checks, print a line for each, and return whether all of them passed."""
    require_fields(proof, PROOF_FIELDS)
    if proof["format"] != "turnlog-proof/1":
        raise VerificationFailure("it is of another format")
    checks = (
        run_check("checkpoint", check_checkpoint, proof, arguments.key, arguments.checkpoint),
        run_check(f"session {proof['session']}", check_session, proof),
        run_check(f"events of call {proof['call']}", check_events, proof),
        run_check("request", check_request, proof, arguments.request),
    )
    return all(checks)


def show_proof(proof: dict[str, Any]) -> None:
    """Print the request and the events in it."""
    request = proof["request"]
    for value in ([json.loads(request)] if request else []) + list_shown(proof):
        lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        print("\n".join(map(escape_text, lines)))


def verify_proof(words: Sequence[str]) -> int:
    """Check the proof in a file, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description="Checks the proof of a call.")
    parser.add_argument("proof", type=Path, help="the file of the proof")
    parser.add_argument("--key", help="the signer's public key, as you have it from the signer")
    parser.add_argument("--checkpoint", type=Path, help="the checkpoint, as you have it yourself")
    parser.add_argument("--request", type=Path, help="a request of your own to compare")
    parser.add_argument("--show", action="store_true", help="print request and events as well")
    arguments = parser.parse_args(words)
    try:
        proof = read_json(arguments.proof, MAX_PROOF)
        is_sound = check_proof(proof, arguments)
        print("verified" if is_sound else "NOT VERIFIED")
        if is_sound and arguments.show:
            show_proof(proof)
    except (VerificationFailure, OSError, *MALFORMED) as error:
        print(escape_text(f"FAILED  {describe_error(error)}"))
        return 5
    return 0 if is_sound else 5


if __name__ == "__main__":
    sys.exit(verify_proof(sys.argv[1:]))
