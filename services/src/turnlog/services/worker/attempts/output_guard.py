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

from pydantic import JsonValue

from turnlog.projections.blueprint.schema.policy_specs import (
    HoldBack,
    SafetyCheckRule,
    SafetyPatternRule,
    SafetyRule,
    SafetySpec,
)
from turnlog.projections.blueprint.storable_json import replace_unstorable
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.services.blueprints.plugins import load_check

# A boundary that is found too early only shortens a piece, so no language's rules are needed.
_SENTENCE_END: Final = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019]*\s|\n")

RuleCheck = Callable[[str], str | None]
"""Returns how a text breaks a rule, or None."""


@dataclass(frozen=True, slots=True)
class GuardViolation:
    """A rule that a reply breaks."""

    rule: str
    reason: str


@dataclass
class OutputGuard:
    """Checks one reply while it grows."""

    hold_back: HoldBack
    rules: tuple[tuple[str, RuleCheck], ...]
    shown_length: int = 0
    """Number of characters that may be published."""
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The whole text so far."""
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    def add_text(self, piece: str) -> str | GuardViolation:
        """Add a piece; return what may be published now, or the rule that is broken."""
        piece = replace_unstorable(piece)
        self._pieces.append(piece)
        if self.rules:
            return self._release_until(self._find_safe_end())
        # Most replies have no rules, and a long text must not be joined again for each token.
        self.shown_length += len(piece)
        return piece

    def release_rest(self) -> str | GuardViolation:
        """Return the rest of the text, once it is complete."""
        return self._release_until(len(self.text))

    def _find_safe_end(self) -> int:
        match self.hold_back:
            case "none":
                return len(self.text)
            case "sentence":
                ends = [
                    found.end() for found in _SENTENCE_END.finditer(self.text, self.shown_length)
                ]
                return ends[-1] if ends else self.shown_length
            case "reply":
                return 0
            case _ as never:
                assert_never(never)

    def _release_until(self, until: int) -> str | GuardViolation:
        if until <= self.shown_length:
            return ""
        if violation := self.find_violation(self.text[:until]):
            return violation
        piece, self.shown_length = self.text[self.shown_length : until], until
        return piece

    def find_violation(self, text: str) -> GuardViolation | None:
        """Return the first rule that a text breaks, or None."""
        for name, broken in self.rules:
            if reason := broken(text):
                return GuardViolation(name, reason)
        return None


def build_guard(material: SessionMaterial) -> OutputGuard:
    """Build the guard for a session's replies."""
    spec: SafetySpec = material.blueprint.policies.safety
    rules = tuple((rule.name, _build_rule_check(rule, material)) for rule in spec.rules)
    return OutputGuard(spec.hold_back if rules else "none", rules)


def _build_rule_check(rule: SafetyRule, material: SessionMaterial) -> RuleCheck:
    match rule:
        case SafetyPatternRule(pattern=pattern):
            search = re.compile(pattern).search
            return lambda text: "it matches a pattern" if search(text) else None
        case SafetyCheckRule(check=name, with_=path):
            check, given = load_check(name), material.resolve_path(path) if path else None
            return lambda text: check(text, given)
        case _ as never:
            assert_never(never)


def find_listed_topic(text: str, topics: JsonValue) -> str | None:
    """Return why a text is refused: the first topic that it names, as whole words, in any case."""
    for topic in topics if isinstance(topics, list) else []:
        words = r"\s+".join(re.escape(word) for word in str(topic).split())
        if words and re.search(rf"\b{words}\b", text, re.IGNORECASE):
            return f"it names {topic}"
    return None
