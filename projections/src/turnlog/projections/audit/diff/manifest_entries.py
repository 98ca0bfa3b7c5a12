"""Manifest entries: a manifest split into items that can be matched with those of another manifest.

A layer is an entry, and so are a segment of a layer and each turn of a history run. An entry
identifies its text and its delimiters by digests and lengths; no text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import (
    AppliedTrimStep,
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PromptPart,
    SegmentSource,
    StoredTextSource,
)
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.provenance_events import is_left_out_as_run
from turnlog.projections.audit.explain.turn_milestones import TurnMilestones
from turnlog.projections.prompt.budget.budget_error import WHOLE_PROMPT, find_step_scope
from turnlog.projections.prompt.sources.offered_tools import LEAVE_OUT_TOOL_STEP

EntryKey = tuple[str, ...]

TextUnit = tuple[object, ...]
"""One message of a prompt: its role, the identity of its text, its delimiters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One item that is included in a prompt or was left out of it."""

    key: EntryKey
    part: PromptPart
    """The part itself, or the history run that the turn is in."""
    texts: tuple[TextUnit, ...]
    """Its messages; empty if it is left out."""
    characters: int
    """Length as included, with delimiters."""
    uncut_characters: int | None
    """Length before anything was cut; None if unknown."""
    turn: int | None = None
    step: AppliedTrimStep | None = None
    """The ladder step that shortened it, left it out or added it."""

    @property
    def is_included(self) -> bool:
        """Whether it is in the prompt."""
        return bool(self.texts)

    @property
    def is_wanted(self) -> bool:
        """Whether it would be in the prompt if there were no budget."""
        return (self.is_included and self.part.rule != "replace") or (
            self.step is not None and not self.is_included
        )

    @property
    def text_origin(self) -> object:
        """Identity of the text before any cut."""
        source = self.part.source
        return source.digest if isinstance(source, StoredTextSource) else source


EntriesByKey = Mapping[EntryKey, ManifestEntry]


def index_entries(side: CallSnapshot, other: CallSnapshot) -> EntriesByKey:
    """Return the entries of a call in the order of its parts; repeated keys are numbered.

    History that neither call comes near is left out: it may be thousands of turns.
    """
    seen: Counter[EntryKey] = Counter()
    found: dict[EntryKey, ManifestEntry] = {}
    for entry in _iterate_entries(side, _collect_near_turns(other)):
        key = (*entry.key, str(seen[entry.key]))
        seen[entry.key] += 1
        found[key] = replace(entry, key=key)
    return found


def _collect_near_turns(side: CallSnapshot) -> frozenset[int]:
    """Return the turns that a call includes or left out individually."""
    runs = (each for each in side.manifest.parts if not is_left_out_as_run(each))
    sources = (each.source for each in runs if isinstance(each.source, HistorySource))
    return frozenset(turn for run in sources for turn in range(run.first, run.last + 1))


def _iterate_entries(side: CallSnapshot, near: frozenset[int]) -> Iterator[ManifestEntry]:
    for part in side.manifest.parts:
        if isinstance(part.source, HistorySource):
            far = is_left_out_as_run(part)
            for turn in range(part.source.first, part.source.last + 1):
                if not far or turn in near:
                    yield _build_turn_entry(part, part.source, turn, side)
        else:
            yield _build_layer_entry(part, side)


def _build_turn_entry(
    part: PromptPart, run: HistorySource, turn: int, side: CallSnapshot
) -> ManifestEntry:
    step = _find_step(part, run.view, side, turn)
    # The length of a turn matters only if it is included or was left out by a ladder step.
    milestones = side.turns.get(turn) if part.is_included or step else None
    messages = _build_messages(milestones) if milestones and part.is_included else ()
    if run.condensed and part.is_included:
        # A condensed run is one text; the words of a single turn cannot be told apart in it.
        messages = ((part.role, part.digest),)
    length = sum(ref.characters for ref in milestones.messages) if milestones else 0
    included_length = length if messages else 0
    return ManifestEntry(
        key=("turn", str(turn)),
        part=part,
        texts=messages,
        characters=included_length,
        uncut_characters=length,
        turn=turn,
        step=step,
    )


def _build_messages(milestones: TurnMilestones) -> tuple[TextUnit, ...]:
    text, role = milestones.text, milestones.role
    return tuple((role if ref is text else "assistant", ref.digest) for ref in milestones.messages)


def _build_layer_entry(part: PromptPart, side: CallSnapshot) -> ManifestEntry:
    texts: tuple[TextUnit, ...] = ((part.role, *_identify_text(part)),) if part.is_included else ()
    around = len(part.before) + len(part.after)
    full_length = (
        (part.cut.of if part.cut else part.characters - around) if part.is_included else None
    )
    step = _find_step(part, part.layer, side)
    return ManifestEntry(
        key=build_part_key(part),
        part=part,
        texts=texts,
        characters=part.characters,
        uncut_characters=full_length,
        step=step,
    )


def build_part_key(part: PromptPart) -> EntryKey:
    """Return what identifies a part that is no history run; several parts may share a key."""
    if part.role == "tools" or part.rule == LEAVE_OUT_TOOL_STEP:
        return ("tool", part.layer)
    if part.is_reply_reasoning and isinstance(part.source, EventTextSource):
        return ("reasoning", part.layer, str(part.source.sequence))
    if isinstance(part.source, SegmentSource):
        return ("segment", part.layer, part.item or "", str(part.source.segment))
    if isinstance(part.source, KnowledgeSource):
        return ("entry", part.layer, part.item or "")
    return ("layer", part.layer)


def _identify_text(part: PromptPart) -> TextUnit:
    """Return what identifies a text: its digest and, if the text was cut, what remains of it."""
    match part.source:
        case (
            BlobSource(digest=digest)
            | SegmentSource(digest=digest)
            | KnowledgeSource(digest=digest)
            | ParentInputSource(digest=digest)
        ):
            text_digest = digest
        case BlueprintTextSource(text=text):
            text_digest = compute_digest(text)
        case _:
            return (part.digest,)
    done = (part.excerpt, part.cut, part.indented)
    return (text_digest, *done) if any(done) else (text_digest,)


def _find_step(
    part: PromptPart, target: str, side: CallSnapshot, turn: int = 0
) -> AppliedTrimStep | None:
    """Return the ladder step that a part's rule names; a step on the whole prompt comes first.

    Of lasting cuts it is the first one that reaches the turn.
    """
    word = (part.rule or "").partition(" ")[0]
    taken = [
        each
        for each in side.manifest.steps
        if (each.step, each.on) == (word, target) and (each.through is None or turn <= each.through)
    ]
    return min(taken, key=lambda each: find_step_scope(each) != WHOLE_PROMPT, default=None)
