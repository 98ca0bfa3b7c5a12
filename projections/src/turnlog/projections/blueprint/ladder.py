"""Ladders as an author writes them: what is done, in which order, when something does not fit.

A step is data. A new one of Turnlog's own is one word in `Step` and one case where steps are
taken; one of a product is registered by a name and needs neither.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from turnlog.projections.blueprint.strict import Name, Strict


class Trim(Strict):
    """Leaves the beginning of a layer's text."""

    layer: Name
    """Of which layer."""
    chars: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """At most so many characters; several are tried in turn."""
    at: Literal["sentence", "word"] = "sentence"
    """Where it may end: where a sentence does, or where a word does. A text without any such
    place is cut where it must be."""


class Compress(Strict):
    """Leaves a cue of a layer's text."""

    layer: Name
    """Of which layer."""
    chars: Annotated[int, Field(ge=1)]
    """A text no longer than this is its own cue."""
    cue: Literal["first_sentences"] = "first_sentences"
    """What the cue is: as many of its first sentences as there is room for."""


class LowerTier(Strict):
    """Takes the highest tier from all items that have it; every item keeps its lowest."""

    layer: Name
    """Of which layer of segments."""


class DropLowest(Strict):
    """Leaves out the item of the lowest priority, the last of several.

    One that nothing outranks is never left out by it.
    """

    layer: Name
    """Of which layer of segments."""
    by: Literal["metadata.priority"] = "metadata.priority"
    """An item is worth as much as the best of its segments."""
    order: Annotated[tuple[str, ...], Field(min_length=1)] = ("low", "normal", "high")
    """From the first to go to the last."""


class OfType(Strict):
    """Segments of one type."""

    type: Annotated[str, Field(min_length=1)]
    """Their `metadata.type`."""


class Replace(Strict):
    """Puts other segments of the same item in place of those that stand."""

    layer: Name
    """Of which layer of segments."""
    with_: Annotated[OfType, Field(alias="with")]
    """Which; an item that has none is left out."""


class Drop(Strict):
    """Leaves out a layer."""

    layer: Name
    """Which one."""


class CondenseTools(Strict):
    """Names the tools that a layer tells of in full."""

    layer: Name | None = None
    """Which layer of tools; each, where nothing is said."""


class DropOldestPairs(Strict):
    """Leaves out the oldest turn of a history, question and answer together."""

    history: Name | None = None
    """Of which view; of each that a call lists, where nothing is said."""


class CondenseRepeats(Strict):
    """Tells of turns that are alike in one message."""

    history: Name | None = None
    """Of which view; of each that a call lists, where nothing is said."""


class Summarise(Strict):
    """Has a model sum up the older turns before the next turn is answered.

    It makes no prompt shorter that is made now.
    """

    history: Name | None = None
    """Of which view; of each that a call lists, where nothing is said."""


class Registered(Strict):
    """A step that a package registers under `turnlog.steps`."""

    name: Annotated[str, Field(min_length=1)]
    """The name it is registered by."""
    layer: Name
    """On which layer it is taken."""
    with_: Annotated[dict[str, JsonValue], Field(alias="with")] = {}
    """What it is told."""


OfHistory = DropOldestPairs | CondenseRepeats | Summarise
"""Steps that are taken on a view of the turns."""
OfLayer = Trim | Compress | LowerTier | DropLowest | Replace | Drop | CondenseTools | Registered
"""Steps that are taken on a layer."""
Rung = OfHistory | OfLayer


class Step(Strict):
    """One rung of a ladder: exactly one of these, repeated until it changes nothing."""

    trim: Trim | None = None
    """Leave the beginning of a text."""
    compress: Compress | None = None
    """Leave a cue of a text."""
    lower_tier: LowerTier | None = None
    """Take the highest tier from all items."""
    drop_lowest: DropLowest | None = None
    """Leave out what matters least."""
    replace: Replace | None = None
    """Put something shorter in its place."""
    drop: Drop | None = None
    """Leave out a layer."""
    condense_tools: CondenseTools | None = None
    """Name tools instead of telling of them in full."""
    condense_repeats: CondenseRepeats | None = None
    """Tell of turns that are alike in one message."""
    summarise: Summarise | None = None
    """Have older turns summed up."""
    drop_oldest_pairs: DropOldestPairs | None = None
    """Leave out the oldest turn."""
    registered: Registered | None = None
    """Do what a package knows how to."""

    @model_validator(mode="after")
    def _one(self) -> Step:
        if len(self.model_fields_set) != 1 or getattr(self, self.word) is None:
            message = f"a step is one of: {', '.join(sorted(type(self).model_fields))}"
            raise ValueError(message)
        return self

    @property
    def word(self) -> str:
        """What an author calls it."""
        return next(iter(self.model_fields_set))

    @property
    def rung(self) -> Rung:
        """What is to be done."""
        rung: Rung = getattr(self, self.word)
        return rung

    @property
    def target(self) -> Name | None:
        """The layer or the view it is taken on; none where it names none."""
        rung = self.rung
        return rung.history if isinstance(rung, OfHistory) else rung.layer


Ladder = tuple[Step, ...]
