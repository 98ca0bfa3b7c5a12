"""Checks two checkpoints: `python3 -I verify_consistency.py older.json newer.json nodes.json`.

It needs nothing but Python's standard library, uses no network and trusts nothing it reads. Each
checkpoint notes how many events each history of a log had, and the root of their tree. For each
history that grew, both roots follow from the same nodes, so its first events are the same. A log
that was cut, rolled back or rewritten between them, and a history that is missing, is found. The
exit code is 0 if the newer continues the older, and 5 if not. Needs Python 3.10 or later.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnlog.services.bundle.check_lines import (
    MALFORMED,
    VerificationFailure,
    compute_digest,
    describe_error,
    encode_canonical,
    escape_text,
    is_object,
    run_check,
)
from turnlog.services.bundle.merkle_paths import compute_both_roots, summarise_heads
from turnlog.services.bundle.strict_files import (
    MAX_CHECKPOINT,
    check_signatures,
    parse_hash,
    parse_nodes,
    read_json,
    require_fields,
    require_number,
)

MOST_EVENTS = 2**53
MOST_FAILURES = 20  # Lines for the histories of one list


def check_noted(signed: dict[str, Any], stated: dict[str, Any], trusted: str | None) -> str:
    """Check the signatures of a checkpoint, and that the named key is among them."""
    require_fields(signed, {"checkpoint", "signatures"})
    keys = check_signatures(stated, signed["signatures"], trusted)
    return f"of tenant {stated['tenant']}, noted {stated['at']}, signed by {', '.join(keys)}"


def check_pair(older: dict[str, Any], newer: dict[str, Any], nodes: dict[str, Any]) -> str:
    """Check that both are of one tenant, in this order, and that the nodes are theirs."""
    require_fields(nodes, {"format", "older", "newer", "nodes"})
    if nodes["format"] != "turnlog-consistency/1":
        raise VerificationFailure("the nodes are of another format")
    if older["tenant"] != newer["tenant"]:
        raise VerificationFailure("they are of two tenants")
    for name, stated in (("older", older), ("newer", newer)):
        if nodes[name] != compute_digest(encode_canonical(stated)):
            raise VerificationFailure(f"the nodes were made for another {name} checkpoint")
    if newer["end"] < older["end"]:
        detail = f"the newer log ends at {newer['end']}, the older one at {older['end']}"
        raise VerificationFailure(detail)
    places = [(each["stream"], each["created"]) for each in (older, newer)]
    moved = "" if places[0] == places[1] else ", in another stream since then"
    return f"one after the other{moved}"


def check_list(older: dict[str, Any], newer: dict[str, Any], nodes: dict[str, Any]) -> str:
    """Check each history of a list that the older checkpoint has."""
    failures, grown = list[str](), 0
    for name, head in older.items():
        try:
            grown += check_history(head, newer.get(name), nodes.get(name))
        except (VerificationFailure, *MALFORMED) as error:
            failures.append(f"{name}: {describe_error(error)}")
    unknown = [name for name in nodes if name not in older]
    failures += [f"{name}: it has nodes and is not in the older checkpoint" for name in unknown]
    if failures:
        rest = len(failures) - MOST_FAILURES
        shown = failures[:MOST_FAILURES] + ([f"and {rest} more"] if rest > 0 else [])
        raise VerificationFailure("; ".join(shown))
    return f"{len(older)} continued, {grown} of them grew, {len(newer) - len(older)} are new"


def check_history(
    older: dict[str, Any], newer: dict[str, Any] | None, path: Sequence[str] | None
) -> bool:
    """Check that a history begins with the events that it had; return whether it grew."""
    if newer is None:
        raise VerificationFailure("it is missing in the newer checkpoint")
    for head in (older, newer):
        require_fields(head, {"sequence", "hash", "root"})
    before = require_number(older["sequence"], 1, MOST_EVENTS, "sequence")
    size = require_number(newer["sequence"], 1, MOST_EVENTS, "sequence")
    if size < before:
        raise VerificationFailure(f"it has {size} events and had {before}")
    if size == before:
        if path is not None:
            raise VerificationFailure("it has nodes and did not grow")
        if older != newer:
            raise VerificationFailure(f"its {size} events are not those that were noted")
        return False
    if path is None:
        raise VerificationFailure("it grew and its nodes are missing")
    check_growth(older, newer, parse_nodes(path))
    return True


def check_growth(older: dict[str, Any], newer: dict[str, Any], path: Sequence[bytes]) -> None:
    """Raise unless the roots of both heads follow from the nodes, and no node is left."""
    nodes = iter(path)
    try:
        roots = compute_both_roots(older["sequence"], newer["sequence"], nodes)
    except (StopIteration, RuntimeError):
        raise VerificationFailure("it has too few nodes") from None
    if next(nodes, None) is not None:
        raise VerificationFailure("it has too many nodes")
    was, is_now = parse_hash(older["root"]), parse_hash(newer["root"])
    if roots[1] != is_now:
        raise VerificationFailure("its nodes do not lead to the root of the newer checkpoint")
    if roots[0] != was:
        detail = f"its first {older['sequence']} events are not those that were noted"
        raise VerificationFailure(detail)


def list_heads(checkpoint: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the lists of heads of a checkpoint, by name."""
    return {name: heads for name, heads in checkpoint.items() if is_object(heads)}


def check_consistency(
    older: dict[str, Any], newer: dict[str, Any], nodes: dict[str, Any], trusted: str | None
) -> bool:
    """Run all checks, print a line for each, and return whether all of them passed."""
    was, is_now = (summarise_heads(each["checkpoint"]) for each in (older, newer))
    checks = [
        run_check("older checkpoint", check_noted, older, was, trusted),
        run_check("newer checkpoint", check_noted, newer, is_now, trusted),
        run_check("both", check_pair, was, is_now, nodes),
    ]
    before, after = list_heads(older["checkpoint"]), list_heads(newer["checkpoint"])
    for name in dict.fromkeys((*before, *after, *nodes["nodes"])):
        grown = nodes["nodes"].get(name, {})
        checks.append(run_check(name, check_list, before.get(name, {}), after.get(name, {}), grown))
    return all(checks)


def verify_consistency(words: Sequence[str]) -> int:
    """Check two checkpoints and the nodes between them, print the results, return the exit code."""
    parser = argparse.ArgumentParser(description="Checks that one checkpoint continues another.")
    parser.add_argument("older", type=Path, help="the older checkpoint")
    parser.add_argument("newer", type=Path, help="the newer checkpoint")
    parser.add_argument("nodes", type=Path, help="the nodes between them")
    parser.add_argument("--key", help="the signer's public key, as you have it from the signer")
    arguments = parser.parse_args(words)
    try:
        older, newer = (
            read_json(each, MAX_CHECKPOINT) for each in (arguments.older, arguments.newer)
        )
        nodes = read_json(arguments.nodes, MAX_CHECKPOINT)
        is_sound = check_consistency(older, newer, nodes, arguments.key)
    except (VerificationFailure, OSError, *MALFORMED) as error:
        print(escape_text(f"FAILED  {describe_error(error)}"))
        return 5
    print("consistent" if is_sound else "NOT CONSISTENT")
    return 0 if is_sound else 5


if __name__ == "__main__":
    sys.exit(verify_consistency(sys.argv[1:]))
