"""The output guard: check what a model or a tool says before or while it is published.

A reply is checked while it is streamed. Plans, tactics and summaries are checked by the same rules
as they arrive, and the arguments and the results of tools before they are recorded.

It holds back as much as the blueprint says and finds the first rule that the text breaks. Published
text never breaks a rule whose hold-back is long enough to see it. If a rule is broken by text that
was published already, the guard can only withhold the rest and have the whole reply replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import assert_never

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.errors import Refused, TurnlogError
from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.linear_patterns import (
    MATCH_REACH,
    LinearPattern,
    PatternFault,
    compile_pattern,
)
from turnlog.projections.blueprint.schema.policy_specs import (
    HoldBack,
    SafetyCheckRule,
    SafetyPatternRule,
    SafetyRule,
    SafetySpec,
)
from turnlog.projections.blueprint.sentence_ends import find_open_sentence, get_undecided_end
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.services.extensions.plugins import SafetyCheck, load_check
from turnlog.services.platform.concurrency import run_in_thread, run_text_work

RuleCheck = Callable[[str], str | Awaitable[str | None] | None]
"""Returns how a text breaks a rule, or None."""


class SafetyCheckFailure(TurnlogError):
    """A check of a package raised, so the text may not be published."""

    code = "check_failed"
    retryable = True
    retry_after: float | None = None

    def __init__(self, rule: str, error: Exception) -> None:
        self.rule = rule
        self.detail = f"the check of the rule `{rule}` failed with {type(error).__name__}"
        super().__init__(self.detail)


@dataclass(frozen=True, slots=True)
class GuardViolation:
    """A rule that a reply breaks."""

    rule: str
    reason: str


@dataclass(kw_only=True)
class OutputGuard:
    """Checks one reply while it grows.

    What is released is checked together with the `MATCH_REACH` characters before it, and the whole
    reply once more at its end: the work grows with the length of a reply and not with its square.
    """

    hold_back: HoldBack
    rules: tuple[tuple[str, RuleCheck], ...]
    shown_length: int = 0
    """Number of characters that may be published."""
    _pieces: list[str] = field(default_factory=list[str])
    _context: str = ""
    """The end of the text that may be published."""
    _held: list[str] = field(default_factory=list[str])
    """What is held back, in pieces."""
    _held_length: int = 0
    _safe_length: int = 0
    """Number of held characters that may be released once they are checked."""
    _undecided: str = ""
    """The end of the text that decides, with what follows it, where a sentence ends."""
    _next_confirmation: int = 0
    """Length of the text from which on the whole of it may be searched again."""

    @property
    def text(self) -> str:
        """The whole text so far."""
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    async def add_text(self, piece: str) -> str | GuardViolation:
        """Add a piece; return what may be published now, or the rule that is broken."""
        piece = replace_unstorable(piece)
        self._pieces.append(piece)
        if not self.rules:
            self.shown_length += len(piece)
            return piece
        self._held.append(piece)
        self._held_length += len(piece)
        await self._find_safe_end(piece)
        return await self._release_safe()

    async def release_rest(self) -> str | GuardViolation:
        """Return the rest of the text, once it is complete, or the rule that the whole breaks."""
        if self._held_length or not self._is_context_whole:
            if violation := await self.check_text(self.text):
                return violation
            self._safe_length = self._held_length
        return self._take_safe()

    async def check_text(self, text: str) -> GuardViolation | None:
        """Return the first rule that a text breaks, or None; raises `SafetyCheckFailure`."""
        for name, find_reason in self.rules:
            if reason := await _run_check(name, find_reason, text):
                return GuardViolation(name, reason)
        return None

    async def check_json(self, written: str) -> GuardViolation | None:
        """Return the first rule that JSON breaks, as written or once its escapes are resolved."""
        violation = await self.check_text(written)
        if violation or not self.rules or "\\" not in written:
            return violation
        resolved = await run_text_work(partial(_resolve_escapes, written), len(written))
        return None if resolved is None else await self.check_text(resolved)

    async def describe_violation(self, written: str) -> str | None:
        """Return the rule that a tool's result breaks or cannot be checked by, with the reason.

        None if it breaks no rule.
        """
        try:
            violation = await self.check_json(written)
        except SafetyCheckFailure as failure:
            return f"{failure.rule}: {failure.detail}"
        return f"{violation.rule}: {violation.reason}" if violation else None

    @property
    def _is_context_whole(self) -> bool:
        return len(self._context) == self.shown_length

    async def _release_safe(self) -> str | GuardViolation:
        if not self._safe_length:
            return ""
        released = "".join(self._held)[: self._safe_length]
        violation = await self.check_text(self._context + released)
        if violation and not self._is_context_whole:
            # A rule about a beginning may take that of the context for it: the whole text decides.
            # It is searched once for so many characters, and nothing is released in between.
            end = self.shown_length + self._safe_length
            if end < self._next_confirmation:
                return ""
            self._next_confirmation = end + MATCH_REACH
            violation = await self.check_text(self.text[:end])
        return violation or self._take_safe()

    def _take_safe(self) -> str:
        held_text = "".join(self._held)
        released, rest = held_text[: self._safe_length], held_text[self._safe_length :]
        self._held, self._held_length, self._safe_length = [rest], len(rest), 0
        self._context = (self._context + released)[-MATCH_REACH:]
        self.shown_length += len(released)
        return released

    async def _find_safe_end(self, piece: str) -> None:
        """Note up to where the held text may be released; `piece` is its end."""
        match self.hold_back:
            case "none":
                self._safe_length = self._held_length
            case "sentence":
                text = self._undecided + piece
                start = await run_text_work(partial(find_open_sentence, text), len(text))
                if start:
                    self._safe_length = self._held_length - len(text) + start
                self._undecided = get_undecided_end(text[start:])
            case "reply":
                pass
            case _ as never:
                assert_never(never)


async def _run_check(rule: str, find_reason: RuleCheck, text: str) -> str | None:
    try:
        found = await run_text_work(partial(find_reason, text), len(text))
        return await found if isawaitable(found) else found
    except Exception as error:
        raise SafetyCheckFailure(rule, error) from error


def _resolve_escapes(written: str) -> str | None:
    """Return JSON in its canonical form; None if the text is not JSON."""
    try:
        return encode_canonical(parse_json(written))
    except InvalidJson:
        return None


async def load_guard(material: SessionMaterial) -> OutputGuard:
    """Build the guard of a session; the import of a check's package may take any time."""
    rules, build = material.blueprint.policies.safety.rules, partial(build_guard, material)
    has_checks = any(isinstance(rule, SafetyCheckRule) for rule in rules)
    return await run_in_thread(build) if has_checks else build()


def build_guard(material: SessionMaterial) -> OutputGuard:
    """Build the guard for a session's replies."""
    spec: SafetySpec = material.blueprint.policies.safety
    rules = tuple((rule.name, _build_rule_check(rule, material)) for rule in spec.rules)
    return OutputGuard(hold_back=spec.hold_back if rules else "none", rules=rules)


def _build_rule_check(rule: SafetyRule, material: SessionMaterial) -> RuleCheck:
    match rule:
        case SafetyPatternRule(pattern=pattern):
            has_match = _compile_rule(rule.name, pattern).has_match
            return lambda text: "it matches a pattern" if has_match(text) else None
        case SafetyCheckRule(check=name, with_=path):
            check, options = load_check(name), material.resolve_path(path) if path else None
            return partial(_run_registered_check, check, options)
        case _ as never:
            assert_never(never)


async def _run_registered_check(check: SafetyCheck, options: JsonValue, text: str) -> str | None:
    """Run a check that may take any time: in a thread unless it is a coroutine function."""
    work = partial(check, text, options)
    found = work() if iscoroutinefunction(check) else await run_in_thread(work)
    return await found if isawaitable(found) else found


def _compile_rule(name: str, pattern: str) -> LinearPattern:
    """Compile a pattern; refuse one that an earlier release let a session pin."""
    try:
        return compile_pattern(pattern)
    except PatternFault as fault:
        detail = f"the pattern of the rule `{name}` cannot be used: {fault.reason}"
        fix = f"{fault.fix}, and move the session to that version"
        raise Refused("bad-pattern", detail, field="policies.safety.rules", fix=fix) from None
