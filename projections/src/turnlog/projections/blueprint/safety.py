"""Policy specs: retries, deadlines, queueing, and the safety rules for replies."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from turnlog.events.forms import build_discriminator
from turnlog.projections.blueprint.strict import Name, StrictModel

HoldBack = Literal["none", "sentence", "reply"]
"""What is held back until it has been checked: nothing, a sentence, or the whole reply."""


class SafetyPatternRule(StrictModel):
    """A rule that withholds a reply which matches a pattern."""

    name: Name
    """The name of the rule that the log records when it withholds a reply."""
    pattern: str
    """A Python regular expression."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern_compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"it is no regular expression: {error}"
            raise ValueError(message) from None
        return pattern


class SafetyCheckRule(StrictModel):
    """A rule that withholds a reply which fails a check registered under `turnlog.checks`."""

    name: Name
    """The name of the rule that the log records when it withholds a reply."""
    check: Annotated[str, Field(min_length=1)]
    """The name under which the check is registered."""
    with_: Annotated[str | None, Field(alias="with")] = None
    """Dotted path to the value that the check receives."""


SafetyRule = Annotated[
    Annotated[SafetyPatternRule, Tag("(pattern)")] | Annotated[SafetyCheckRule, Tag("(check)")],
    Discriminator(
        build_discriminator("pattern", "check"),
        custom_error_type="rule_kind",
        custom_error_message="a rule has a `pattern` or a `check`",
    ),
]


class SafetySpec(StrictModel):
    """The safety rules for replies."""

    hold_back: HoldBack = "none"
    """How much of a reply is held back until it has been checked."""
    rules: tuple[SafetyRule, ...] = ()
    """Rules in order; the first that fails withholds the reply."""
