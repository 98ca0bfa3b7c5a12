"""The output guard: check a reply before or while it is published.

It holds back as much as the blueprint says and finds the first rule that the text breaks. Published
text never breaks a rule whose hold-back is long enough to see it. If a rule is broken by text that
was published already, the guard can only withhold the rest and have the whole reply replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, assert_never

from turnlog.projections.blueprint.safety import CheckRule, HoldBack, PatternRule, Rule, SafetySpec
from turnlog.projections.blueprint.storable import mended
from turnlog.projections.window.material import Material
from turnlog.services.runtime.plugins import check_named

# A boundary that is found too early only shortens a piece, so no language's rules are needed.
_SENTENCE_END: Final = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019]*\s|\n")

Broken = Callable[[str], str | None]
"""Returns how a text breaks a rule, or None."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a reply breaks."""

    rule: str
    reason: str


@dataclass
class Guard:
    """Checks one reply while it grows."""

    hold_back: HoldBack
    rules: tuple[tuple[str, Broken], ...]
    shown: int = 0
    """Number of characters that may be published."""
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The whole text so far."""
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    def hear(self, piece: str) -> str | Violation:
        """Add a piece; return what may be published now, or the rule that is broken."""
        piece = mended(piece)
        self._pieces.append(piece)
        if self.rules:
            return self._released(self._safe_until())
        # Most replies have no rules, and a long text must not be joined again for each token.
        self.shown += len(piece)
        return piece

    def end(self) -> str | Violation:
        """Return the rest of the text, once it is complete."""
        return self._released(len(self.text))

    def _safe_until(self) -> int:
        match self.hold_back:
            case "none":
                return len(self.text)
            case "sentence":
                ends = [found.end() for found in _SENTENCE_END.finditer(self.text, self.shown)]
                return ends[-1] if ends else self.shown
            case "reply":
                return 0
            case _ as never:
                assert_never(never)

    def _released(self, until: int) -> str | Violation:
        if until <= self.shown:
            return ""
        if violation := self.violation(self.text[:until]):
            return violation
        piece, self.shown = self.text[self.shown : until], until
        return piece

    def violation(self, text: str) -> Violation | None:
        """Return the first rule that a text breaks, or None."""
        for name, broken in self.rules:
            if reason := broken(text):
                return Violation(name, reason)
        return None


def guard_of(material: Material) -> Guard:
    """Build the guard for a session's replies."""
    spec: SafetySpec = material.blueprint.policies.safety
    rules = tuple((rule.name, _broken(rule, material)) for rule in spec.rules)
    return Guard(spec.hold_back if rules else "none", rules)


def _broken(rule: Rule, material: Material) -> Broken:
    match rule:
        case PatternRule(pattern=pattern):
            search = re.compile(pattern).search
            return lambda text: "it matches a pattern" if search(text) else None
        case CheckRule(check=name, with_=path):
            check, given = check_named(name), material.at(path) if path else None
            return lambda text: check(text, given)
        case _ as never:
            assert_never(never)
