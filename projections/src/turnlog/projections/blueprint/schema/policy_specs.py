"""Policy specs: retries, deadlines, queueing, and the safety rules for replies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.history_specs import MemoryFileSpec
from turnlog.projections.blueprint.schema.resolver_specs import ReferencesSpec
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel

HoldBack = Literal["none", "sentence", "reply"]
"""What is held back until it has been checked: nothing, a sentence, or the whole reply."""


class SafetyPatternRule(StrictModel):
    """A rule that withholds a reply which matches a pattern."""

    name: Name
    """The name of the rule that the log records when it withholds a reply."""
    pattern: str
    """A regular expression without look-around and backreferences, searched in linear time."""


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


class RetryPolicy(StrictModel):
    """How often a failed attempt is retried, and after which delay."""

    max: Annotated[int, Field(ge=0)] = 4
    """Maximum number of retries."""
    base_seconds: Annotated[float, Field(ge=0)] = 1.0
    """The delay is base * 2^n plus up to a second, unless the provider requests another."""
    cap_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Maximum delay in seconds."""


class Policies(StrictModel):
    """How a session handles overlapping, slow and failing turns."""

    second_submit: Literal["reject", "queue", "interrupt"] = "queue"
    """What happens to a submit while a turn is open."""
    queue_limit: Annotated[int, Field(ge=1)] = 100
    """Maximum number of queued turns."""
    deadline_seconds: Annotated[float, Field(gt=0)] = 300.0
    """How long a turn may be open after its release, in seconds."""
    max_claims: Annotated[int, Field(ge=1)] = 10
    """How often workers may claim one turn before it fails."""
    replacement: Annotated[str, Field(min_length=1)] = "(This reply was withheld.)"
    """The default text in place of a redacted reply."""
    filtered_replies: Literal["exclude", "include"] = "exclude"
    """Whether later windows include a turn whose reply a filter of the provider cut."""
    retries: RetryPolicy = RetryPolicy()
    """Retries of failed attempts."""
    safety: SafetySpec = SafetySpec()
    """Safety rules for replies."""
    memory: MemoryFileSpec | None = None
    """The memory policy for later turns; without it they may include everything."""
    references: ReferencesSpec | None = None
    """References that a turn may inherit from an earlier one."""
