from __future__ import annotations

from turnlog.events.manifest import Manifest

_SHORTER = frozenset({"condensed", "summarised"})


def savings(manifest: Manifest) -> dict[str, int]:
    """Return the tokens that each rule saved, by the rule's name."""
    found: dict[str, int] = {}
    for step in manifest.steps:
        found[step.step] = found.get(step.step, 0) + step.before - step.after
    taken = frozenset(found)
    for part in manifest.parts:
        word = (part.rule or "").partition(" ")[0]
        if (part.kept or part.saved) and part.treatment in _SHORTER and word not in taken:
            found[word] = found.get(word, 0) + part.saved
    return found
