"""The input guard: applies a blueprint's `input_safety` to what a person submits.

It runs before anything is recorded. A refusal names the rule and the place, and repeats nothing of
what was found. What is masked is replaced by the name of its rule, so that neither the text nor a
digest of it can give it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.blueprint.linear_patterns import compile_pattern
from turnlog.projections.blueprint.personal_detail_finders import (
    TextSpan,
    find_cards,
    find_emails,
    find_ibans,
    find_phones,
)
from turnlog.projections.blueprint.schema.policy_specs import (
    InputCheck,
    InputCheckRule,
    InputPatternRule,
    InputRule,
)
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import JsonObject

FINDERS: Final[Mapping[InputCheck, Callable[[str], Sequence[TextSpan]]]] = {
    "cards": find_cards,
    "ibans": find_ibans,
    "emails": find_emails,
    "phones": find_phones,
}
"""The function that finds the places of each check."""


@dataclass(frozen=True, slots=True)
class GuardedValues:
    """What was submitted, as it may be recorded."""

    values: JsonObject
    findings: tuple[InputFinding, ...]
    """What was masked or noted, by rule in their order."""

    @property
    def is_masked(self) -> bool:
        """Whether the values differ from those that were submitted."""
        return any(each.action == "mask" for each in self.findings)


def guard_values(rules: Sequence[InputRule], values: Mapping[str, JsonValue]) -> GuardedValues:
    """Apply rules to the fields of a request; raise `Refused` `unsafe-input` naming the place.

    Each rule sees a text as the rules before it left it.
    """
    if not rules:
        return GuardedValues(dict(values), ())
    walk = _GuardWalk(rules)
    guarded = {name: walk.guard_value(value, name) for name, value in values.items()}
    return GuardedValues(guarded, walk.list_findings())


def replace_spans(text: str, spans: Sequence[TextSpan], mask: str) -> str:
    """Replace parts of a text that do not overlap."""
    for span in reversed(spans):
        text = f"{text[: span.begin]}{mask}{text[span.end :]}"
    return text


@dataclass(frozen=True, slots=True)
class _GuardWalk:
    """One pass over the values of a request, and what it has found so far."""

    rules: Sequence[InputRule]
    counts: Counter[str] = field(default_factory=Counter[str])
    """Number of findings by rule."""

    def list_findings(self) -> tuple[InputFinding, ...]:
        return tuple(
            InputFinding(rule=rule.name, action=rule.action, count=self.counts[rule.name])
            for rule in self.rules
            if rule.action != "refuse" and self.counts[rule.name]
        )

    def guard_value(self, value: JsonValue, path: str) -> JsonValue:
        match value:
            case bool() | None:
                return value
            case str():
                return self._guard_text(value, path)
            case int() | float():
                # Cards and accounts have no sign and no fraction.
                digits = str(abs(int(value)))
                guarded = self._guard_text(digits, path)
                return value if guarded == digits else guarded
            case list():
                return [self.guard_value(item, f"{path}.{at}") for at, item in enumerate(value)]
            case dict():
                return {
                    key: self.guard_value(item, f"{path}.{self._guard_key(key, path)}")
                    for key, item in value.items()
                }

    def _guard_text(self, text: str, path: str) -> str:
        """Apply the rules until they mask nothing more.

        What stood right beside a masked place may be found only then. No rule finds a mask, which
        has brackets and no digits, so each pass leaves less of the text.
        """
        rules = self.rules
        while (masked := self._apply_rules(rules, text, path)) != text:
            text, rules = masked, [rule for rule in rules if rule.action != "note"]
        return text

    def _apply_rules(self, rules: Sequence[InputRule], text: str, path: str) -> str:
        for rule in rules:
            if spans := _find_spans(rule, text):
                if rule.action == "refuse":
                    raise _create_refusal(rule, path)
                self.counts[rule.name] += len(spans)
                if rule.action == "mask":
                    text = replace_spans(text, spans, f"[{rule.name}]")
        return text

    def _guard_key(self, key: str, path: str) -> str:
        """Return a key for a path; refuse one that would be masked, since it names a value."""
        for rule in self.rules:
            if spans := _find_spans(rule, key):
                if rule.action != "note":
                    raise _create_refusal(rule, f"{path}.({len(key)} characters)")
                self.counts[rule.name] += len(spans)
        return format_sent_name(key)


def _find_spans(rule: InputRule, text: str) -> Sequence[TextSpan]:
    """Return what a rule finds; the whole of a text that matches a pattern."""
    match rule:
        case InputCheckRule():
            return FINDERS[rule.check](text)
        case InputPatternRule():
            is_found = compile_pattern(rule.pattern).has_match(text)
            return (TextSpan(0, len(text)),) if is_found else ()
        case _ as never:
            assert_never(never)


def _create_refusal(rule: InputRule, path: str) -> Refused:
    detail = f"the rule `{rule.name}` of the blueprint does not accept what is in it"
    return Refused("unsafe-input", detail, field=path, fix="send it without")
