"""Token budgets and their ladders: how large a call may be, and what is trimmed first.

A ladder is a list of steps. A new built-in step needs one field in `LadderStep` and one case in the
code that applies steps; a package registers its own steps by name and needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, assert_never

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    RootModel,
    Tag,
    model_validator,
)

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel

MAX_LIMIT: Final = 100_000_000
"""The largest limit of tokens or characters that a blueprint may state."""

LimitCount = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class InputLimit(StrictModel):
    """A limit that a turn may set by an input."""

    default: LimitCount
    """The limit if the turn does not set the input."""
    input: Name
    """The name of the input, which must be of type `int`."""


def _get_limit_tag(limit: object) -> str:
    return "(default)" if isinstance(limit, Mapping | InputLimit) else "(number)"


Limit = Annotated[
    Annotated[LimitCount, Tag("(number)")] | Annotated[InputLimit, Tag("(default)")],
    Discriminator(_get_limit_tag),
]
"""A number of tokens or characters."""


def resolve_limit(limit: Limit, inputs: Mapping[str, JsonValue]) -> int:
    """Return a limit for one turn, read from its inputs if the limit names one."""
    if isinstance(limit, int):
        return limit
    value = inputs.get(limit.input)
    return value if isinstance(value, int) else limit.default


SHARE_PATTERN: Final = r"^[1-9][0-9]?%$"

BudgetShare = Annotated[str, Field(pattern=SHARE_PATTERN)]
"""A percentage of the limit that a step answers for, from `1%` to `99%`."""


def compute_share(share: BudgetShare, limit: int) -> int:
    """Return a percentage of a limit in tokens."""
    return limit * int(share.removesuffix("%")) // 100


class TrimLayer(StrictModel):
    """Shortens the text of a layer to its beginning."""

    layer: Name
    """The layer to shorten."""
    chars: Annotated[tuple[Limit, ...], Field(min_length=1)]
    """Maximum lengths in characters, tried one after the other."""
    at: Literal["sentence", "word"] = "sentence"
    """Where the text may end: after a sentence or after a word. A text without such a place is cut
    at the limit.
    """


class CutCue(StrictModel):
    """A line that replaces the sentences that are cut."""

    text: Annotated[str, Field(min_length=1, max_length=200)]
    """The line, such as `[The rest is left out.]`."""


class CompressLayer(StrictModel):
    """Shortens the text of a layer to a cue."""

    layer: Name
    """The layer to shorten."""
    chars: Limit
    """Maximum length of the sentences that are kept, in characters."""
    cue: Literal["first_sentences"] | CutCue = "first_sentences"
    """`first_sentences`: the first sentences that fit are the cue, and a text that is short enough
    is its own. With a `text`, that line replaces what is cut; the sentences before it go one by
    one, the last first, until the prompt fits or the line alone is left.
    """


class LowerSegmentTier(StrictModel):
    """Removes the highest tier from all items that have it; every item keeps its lowest tier."""

    layer: Name
    """The segment layer."""


class DropLowestPriority(StrictModel):
    """Removes the item with the lowest priority, the last one if several are equal.

    An item is never removed if no other item has a higher priority.
    """

    layer: Name
    """The segment layer."""
    by: Literal["metadata.priority"] = "metadata.priority"
    """The priority of an item is the highest priority of its segments."""
    order: Annotated[tuple[str, ...], Field(min_length=1)] = ("low", "normal", "high")
    """Priorities, the first to be removed first."""


class SegmentTypeFilter(StrictModel):
    """Segments of one type."""

    type: Annotated[str, Field(min_length=1)]
    """The `metadata.type` of the segments."""


class ReplaceSegments(StrictModel):
    """Replaces the segments of an item by other segments of the same item."""

    layer: Name
    """The segment layer."""
    with_: Annotated[SegmentTypeFilter, Field(alias="with")]
    """The replacements; an item that has none is left out."""


class DropLayer(StrictModel):
    """Leaves out a layer."""

    layer: Name
    """The layer to leave out."""


class CondenseToolList(StrictModel):
    """Lists tools by name instead of describing them in full."""

    layer: Name | None = None
    """The tools layer; all of them if it is not given."""


class CondenseResults(StrictModel):
    """Replaces tool results by shorter texts, one at a time and the longest first.

    With the layer `tool_results` also the arguments of tool calls, but for those of the latest
    round: long values in them are cut, and a line says by how much.
    """

    layer: Name
    """The layer of results."""
    to: Literal["summary", "sample", "digest", "nothing"]
    """`summary` is their columns, length and first rows, `sample` the beginning of that, `digest`
    their names, lengths and digests. `nothing` leaves results out, the oldest first. Of a longer
    text in arguments, `summary` leaves 400 characters, `sample` 60, and `digest` its length.
    """


class LimitHits(StrictModel):
    """Leaves out what was retrieved, the worst entry first, until `k` entries are left."""

    k: Annotated[int, Field(ge=0, le=24)]
    """The number of entries that are never left out."""
    layer: Name | None = None
    """The retrieval layer; all of them if it is not given."""


class DropOldestPairs(StrictModel):
    """Removes the oldest turn of a history, question and answer together."""

    history: Name | None = None
    """The history view; every view that the call lists if it is not given."""
    keep_messages: Annotated[int, Field(ge=0, le=1024)] = 0
    """Number of latest messages that are never removed, in whole turns."""
    to: BudgetShare | None = None
    """How far it drops once it has to, such as `80%` of the limit. What it dropped stays dropped in
    later calls of the kind until one exceeds the limit again. Without it every call drops just
    enough to fit.
    """


class CondenseRepeats(StrictModel):
    """Combines turns that are alike into one message."""

    history: Name | None = None
    """The history view; every view that the call lists if it is not given."""


class SummariseHistory(StrictModel):
    """Has a model summarise the older turns before the turn is answered.

    The summary is made only where the steps before this one leave too much: more than the limit of
    their ladder, or than the `above_tokens` of the view if it has one. The steps after this one are
    applied to what is too long beside the summary.
    """

    history: Name | None = None
    """The history view; every view that the call lists if it is not given."""


class RegisteredStep(StrictModel):
    """A step that a package registers under `turnlog.steps`."""

    name: Annotated[str, Field(min_length=1)]
    """The name under which the step is registered."""
    layer: Name
    """The layer that the step is applied to."""
    with_: Annotated[dict[str, JsonValue], Field(alias="with")] = {}
    """Arguments for the step."""


class LastingImageCut(StrictModel):
    """Leaves out the oldest pictures down to a share of the limit."""

    to: BudgetShare
    """How far it goes once it has to, such as `80%` of the limit, in whole turns. What it left out
    stays left out in later calls of the kind until one exceeds the limit again.
    """


def _get_image_tag(written: object) -> str:
    return "(to)" if isinstance(written, Mapping | LastingImageCut) else "(oldest)"


class DropImages(
    RootModel[
        Annotated[
            Annotated[Literal["oldest"], Tag("(oldest)")] | Annotated[LastingImageCut, Tag("(to)")],
            Discriminator(_get_image_tag),
        ]
    ]
):
    """Leaves out the oldest picture of earlier turns; a line in its place says so.

    The pictures of the turn itself are never left out.
    """

    model_config = ConfigDict(frozen=True)

    @property
    def to(self) -> BudgetShare | None:
        """How far it goes once it has to; None for just enough to fit."""
        return self.root.to if isinstance(self.root, LastingImageCut) else None


HistoryAction = DropOldestPairs | CondenseRepeats | SummariseHistory
"""Actions on a history view."""

LayerAction = (
    TrimLayer
    | CompressLayer
    | LowerSegmentTier
    | DropLowestPriority
    | ReplaceSegments
    | DropLayer
    | CondenseToolList
    | CondenseResults
    | LimitHits
    | RegisteredStep
)
"""Actions on a layer."""

LadderAction = HistoryAction | LayerAction | DropImages

LastingAction = DropOldestPairs | DropImages
"""Actions whose cuts can last: they take the oldest of what grows with every turn."""


class LadderStep(StrictModel):
    """One step of a ladder: exactly one action, repeated until it changes nothing."""

    trim: TrimLayer | None = None
    """Shorten a text to its beginning."""
    compress: CompressLayer | None = None
    """Shorten a text to a cue."""
    lower_tier: LowerSegmentTier | None = None
    """Remove the highest tier of all items."""
    drop_lowest: DropLowestPriority | None = None
    """Remove the item with the lowest priority."""
    replace: ReplaceSegments | None = None
    """Replace segments by shorter ones."""
    drop: DropLayer | None = None
    """Leave out a layer."""
    condense_tools: CondenseToolList | None = None
    """List tools by name only."""
    condense_results: CondenseResults | None = None
    """Replace tool results by shorter texts."""
    limit_hits: LimitHits | None = None
    """Leave out what was retrieved, the worst first."""
    condense_repeats: CondenseRepeats | None = None
    """Combine turns that are alike."""
    summarise: SummariseHistory | None = None
    """Have a model summarise older turns."""
    drop_images: DropImages | None = None
    """Leave out pictures of earlier turns, the oldest first."""
    drop_oldest_pairs: DropOldestPairs | None = None
    """Remove the oldest turn."""
    registered: RegisteredStep | None = None
    """Apply a step that a package registered."""

    @model_validator(mode="after")
    def _check_one_action(self) -> LadderStep:
        if len(self.model_fields_set) != 1 or getattr(self, self.action_name) is None:
            message = f"a step is one of: {', '.join(sorted(type(self).model_fields))}"
            raise ValueError(message)
        return self

    @property
    def action_name(self) -> str:
        """The field that is set, as it is written in a blueprint."""
        return next(iter(self.model_fields_set))

    @property
    def action(self) -> LadderAction:
        """The action of the step."""
        action: LadderAction = getattr(self, self.action_name)
        return action

    @property
    def to(self) -> BudgetShare | None:
        """The share of its limit that its lasting cut goes to; None if its cuts do not last."""
        return self.action.to if isinstance(self.action, LastingAction) else None

    @property
    def target(self) -> Name | None:
        """The layer or history view the action names, or None."""
        match self.action:
            case DropImages():
                return None
            case DropOldestPairs() | CondenseRepeats() | SummariseHistory() as action:
                return action.history
            case action:
                return action.layer


Ladder = tuple[LadderStep, ...]

MAX_CHARACTERS_PER_TOKEN: Final = 128
"""Characters of the longest token in any supported vocabulary."""


class CharacterCounterSpec(StrictModel):
    """Counts one token for every `chars_per_token` characters, rounded up."""

    chars_per_token: Annotated[int, Field(ge=1, le=1_000)]
    """Characters per token."""


class TiktokenCounterSpec(StrictModel):
    """Counts with a tiktoken vocabulary that is installed with the service.

    Nothing is downloaded.
    """

    tiktoken: Literal["cl100k_base", "o200k_base", "p50k_base"]
    """The name of the vocabulary."""


CounterSpec = Annotated[
    Annotated[CharacterCounterSpec, Tag("(chars_per_token)")]
    | Annotated[TiktokenCounterSpec, Tag("(tiktoken)")],
    Discriminator(
        build_discriminator("chars_per_token", "tiktoken"),
        custom_error_type="counter_kind",
        custom_error_message="a counter is one of: `chars_per_token`, `tiktoken`",
    ),
]


def get_max_characters_per_token(counter: CounterSpec) -> int:
    """Return the largest number of characters that one token can stand for."""
    match counter:
        case CharacterCounterSpec(chars_per_token=characters):
            return characters
        case TiktokenCounterSpec():
            return MAX_CHARACTERS_PER_TOKEN
        case _ as never:
            assert_never(never)


class SectionBudget(StrictModel):
    """A limit for one layer, enforced before the limit of the whole prompt."""

    tokens: Limit
    """Maximum tokens of the layer's content, without delimiters."""
    ladder: Ladder = ()
    """Steps that are applied to this layer only."""


class ComponentBudget(StrictModel):
    """A limit for everything that is counted under one component."""

    tokens: Limit
    """Maximum tokens of the component, with the delimiters around its texts."""
    fixed: bool = False
    """True if the component is never trimmed; the call is refused if it exceeds the limit."""
    ladder: Ladder = ()
    """Steps that are applied to this component. What is still too long afterwards is accepted if
    the whole prompt fits.
    """


class OverflowBudget(StrictModel):
    """The larger limit of a prompt that the ladder of its budget cannot make short enough."""

    tokens: LimitCount
    """Maximum tokens of the whole prompt."""
    ladder: Ladder = ()
    """Steps for a prompt that exceeds this limit; what is still too long is refused."""


class BudgetSpec(StrictModel):
    """The token limit of a call, its counter, and the steps that make a prompt fit."""

    tokens: Limit
    """Maximum tokens of the whole prompt."""
    counter: CounterSpec = CharacterCounterSpec(chars_per_token=4)
    """How tokens are counted."""
    sections: dict[Name, SectionBudget] = {}
    """Limits of single layers."""
    components: dict[Name, ComponentBudget] = {}
    """Limits of components, enforced once the sections fit."""
    ladder: Ladder = ()
    """Steps for the whole prompt; each is repeated until it changes nothing before the next begins.
    """
    overflow: OverflowBudget | None = None
    """What a prompt may have that is too long after all steps. Without it such a prompt is refused.
    """

    def resolve_component(self, name: str, inputs: Mapping[str, JsonValue]) -> int | None:
        """Return the limit of a component for one turn, or None."""
        component = self.components.get(name)
        return resolve_limit(component.tokens, inputs) if component else None

    def resolve_largest(self, inputs: Mapping[str, JsonValue]) -> int:
        """Return the most tokens that a prompt of one turn may have."""
        tokens = resolve_limit(self.tokens, inputs)
        return max(tokens, self.overflow.tokens) if self.overflow else tokens

    @property
    def steps(self) -> Ladder:
        """The steps of all its ladders."""
        limited: tuple[SectionBudget | ComponentBudget, ...] = (
            *self.sections.values(),
            *self.components.values(),
        )
        own = (*(step for each in limited for step in each.ladder), *self.ladder)
        return (*own, *self.overflow.ladder) if self.overflow else own
