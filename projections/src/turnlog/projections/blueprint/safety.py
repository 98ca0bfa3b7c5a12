"""Safety as an author writes it: what may not be said, and what stands in its place."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.strict import Name, Strict

HoldBack = Literal["none", "sentence", "reply"]
"""What is held back until it has been checked: nothing, a sentence, or the whole reply."""


class PatternRule(Strict):
    """A reply may not match a pattern."""

    name: Name
    """What the record says withheld it."""
    pattern: str
    """A regular expression of Python's."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"it is no regular expression: {error}"
            raise ValueError(message) from None
        return pattern


class CheckRule(Strict):
    """A reply may not fail a check that a package registers under `turnlog.checks`."""

    name: Name
    """What the record says withheld it."""
    check: Annotated[str, Field(min_length=1)]
    """The name it is registered by."""
    with_: Annotated[str | None, Field(alias="with")] = None
    """Dotted path to what the check is given."""


Rule = Annotated[
    Annotated[PatternRule, Tag("(pattern)")] | Annotated[CheckRule, Tag("(check)")],
    Discriminator(
        form_by("pattern", "check"),
        custom_error_type="rule_kind",
        custom_error_message="a rule has a `pattern` or a `check`",
    ),
]


class SafetySpec(Strict):
    """What may not be said."""

    hold_back: HoldBack = "none"
    """What is held back until it has been checked."""
    rules: tuple[Rule, ...] = ()
    """In order; the first that is broken withholds the reply."""
