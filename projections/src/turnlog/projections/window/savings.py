"""Savings: what a prompt would have taken more, had nothing of it been shortened.

It is read off the manifest, by the counter that counted it. A step of a ladder says what it saved;
what was condensed by no step says by how much it is shorter than what it stands for. What no
manifest knows, such as the length of turns that were summed up, is no part of it.
"""

from __future__ import annotations

from turnlog.events.manifest import Manifest

_SHORTER = frozenset({"condensed", "summarised"})


def savings(manifest: Manifest) -> dict[str, int]:
    """Give the rules by which a prompt is shorter, each with the tokens it saved."""
    found: dict[str, int] = {}
    for step in manifest.steps:
        found[step.step] = found.get(step.step, 0) + step.before - step.after
    taken = frozenset(found)
    for part in manifest.parts:
        word = (part.rule or "").partition(" ")[0]
        if (part.kept or part.saved) and part.treatment in _SHORTER and word not in taken:
            found[word] = found.get(word, 0) + part.saved
    return found
