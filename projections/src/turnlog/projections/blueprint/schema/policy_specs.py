"""Policy specs: retries, deadlines, queueing, children, safety rules for turns and for replies."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, JsonValue, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.locale_tags import format_locale_tag, iterate_locale_fallbacks
from turnlog.projections.blueprint.schema.history_specs import MemoryFileSpec
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ReferencesSpec
from turnlog.projections.blueprint.schema.strict_model import (
    WORD_PATTERN,
    LocaleTag,
    Name,
    StrictModel,
)
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec

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


InputCheck = Literal["cards", "ibans", "emails", "phones"]
"""The checks that find a place in a text, and so can mask it."""


InputRuleName = Annotated[str, Field(pattern=WORD_PATTERN)]
"""Lower case letters, `_` and `-`: a mask has no digits, in which a rule could find something."""


class InputCheckRule(StrictModel):
    """A rule about personal data in what is submitted as a turn."""

    name: InputRuleName
    """The name of the rule; what is masked becomes the name in brackets."""
    check: InputCheck
    """What it finds."""
    action: Literal["refuse", "mask", "note"]
    """Whether the turn is refused, what was found is replaced, or only counted."""


class InputPatternRule(StrictModel):
    """A rule about what is submitted as a turn, by a pattern, which finds no place to mask."""

    name: InputRuleName
    """The name of the rule."""
    pattern: str
    """A regular expression without look-around and backreferences, searched in linear time."""
    action: Literal["refuse", "note"]
    """Whether the turn is refused, or the texts that match are only counted."""


InputRule = Annotated[
    Annotated[InputPatternRule, Tag("(pattern)")] | Annotated[InputCheckRule, Tag("(check)")],
    Discriminator(
        build_discriminator("pattern", "check"),
        custom_error_type="rule_kind",
        custom_error_message="a rule has a `pattern` or a `check`",
    ),
]


class RetryPolicy(StrictModel):
    """How often a failed attempt is retried, and after which delay."""

    max: Annotated[int, Field(ge=0)] = 4
    """Maximum number of retries."""
    base_seconds: Annotated[float, Field(ge=0)] = 1.0
    """The delay is base * 2^n plus up to a second, unless the provider requests another."""
    cap_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Maximum delay in seconds."""


class ChildPolicy(StrictModel):
    """How coordinators ask their children, and what becomes of a child without a reply."""

    most_at_once: Annotated[int, Field(ge=1, le=16)] = 4
    """Maximum number of children that one answer may ask."""
    most_levels: Annotated[int, Field(ge=1, le=8)] = 2
    """Maximum number of levels of children; one if no child is a coordinator."""
    seconds: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """How long a coordinator waits for a child; then the child's turn is cancelled."""
    failed: Literal["report", "fail"] = "report"
    """Whether the model reads that a child gave no reply, or the coordinator's turn fails."""
    approval: Literal["wait", "report"] = "wait"
    """Whether a coordinator waits for a child that waits for a person's approval, or goes on; the
    child's turn stays, and a person may still decide.
    """


ReplacementText = Annotated[str, Field(min_length=1)]

LOCALE_ATTRIBUTE: Final = "locale"
"""The attribute whose value chooses among texts by locale."""


def _get_replacement_form(written: object) -> str:
    return "(by locale)" if isinstance(written, dict) else "(text)"


ReplacementSpec = Annotated[
    Annotated[ReplacementText, Tag("(text)")]
    | Annotated[dict[LocaleTag, ReplacementText], Tag("(by locale)")],
    Discriminator(_get_replacement_form),
]
"""One text, or texts by the session's attribute `locale`; that of `en` stands in for others."""


CutTurnPolicy = Literal["drop", "keep_question", "keep_partial"]
"""What later prompts include of a turn that ended without its whole reply."""


class Policies(StrictModel):
    """How a session handles overlapping, slow and failing turns."""

    second_submit: Literal["reject", "queue", "interrupt"] = "queue"
    """What happens to a submit while a turn is open."""
    queue_limit: Annotated[int, Field(ge=1)] = 100
    """Maximum number of queued turns."""
    deadline_seconds: Annotated[float, Field(gt=0)] = 600.0
    """How long a turn may be open after its release, in seconds."""
    timeouts: TimeoutSpec = TimeoutSpec()
    """How long a call may wait for its model."""
    max_claims: Annotated[int, Field(ge=1)] = 10
    """How often workers may claim one turn before it fails."""
    replacement: ReplacementSpec = "(This reply was withheld.)"
    """The default text in place of a redacted reply, or one for each locale."""
    filtered_replies: Literal["exclude", "include"] = "exclude"
    """Whether later windows include a turn whose reply a filter of the provider cut."""
    retries: RetryPolicy = RetryPolicy()
    """Retries of failed attempts."""
    empty_reply: Literal["retry", "fail", "accept"] = "retry"
    """What becomes of an answer that holds neither text nor a tool call."""
    cancelled: CutTurnPolicy = "keep_partial"
    """What later prompts include of a turn that was cancelled or interrupted: nothing, what the
    user wrote, or that and what was shown of the reply.
    """
    failed: CutTurnPolicy = "keep_partial"
    """The same of a turn that failed."""
    children: ChildPolicy = ChildPolicy()
    """The children of coordinators."""
    safety: SafetySpec = SafetySpec()
    """Safety rules for replies."""
    input_safety: tuple[InputRule, ...] = ()
    """Rules for what is submitted as a turn, in order, before anything of it is recorded."""
    memory: MemoryFileSpec | None = None
    """The memory policy for later turns; without it they may include everything."""
    references: ReferencesSpec | None = None
    """References that a turn may inherit from an earlier one."""

    def get_replacement(self, locale: JsonValue) -> str:
        """Return the replacement in a locale, or in the first of its fallbacks that has one."""
        if isinstance(self.replacement, str):
            return self.replacement
        texts = {format_locale_tag(tag): text for tag, text in self.replacement.items()}
        tags = iterate_locale_fallbacks((str(locale or ""),))
        return next(texts[tag] for tag in tags if tag in texts)
