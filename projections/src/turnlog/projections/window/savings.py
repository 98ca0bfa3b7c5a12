from __future__ import annotations

from turnlog.events.manifest import Manifest

_SHORTENED_TREATMENTS = frozenset({"condensed", "summarised"})


def compute_token_savings(manifest: Manifest) -> dict[str, int]:
    """Return the tokens that each rule saved, by the rule's name."""
    found: dict[str, int] = {}
    for step in manifest.steps:
        found[step.step] = found.get(step.step, 0) + step.before - step.after
    taken = frozenset(found)
    for part in manifest.parts:
        word = (part.rule or "").partition(" ")[0]
        if (part.is_included or part.saved) and part.treatment in _SHORTENED_TREATMENTS and word not in taken:
            found[word] = found.get(word, 0) + part.saved
    return found
