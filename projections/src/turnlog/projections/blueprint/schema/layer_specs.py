"""Layer specs: where a layer's text comes from, and under which condition a call includes it.

Conditions are a fixed vocabulary and sources are data; there is no expression language. The
components are the names under which tokens are counted. The standard ones exist in every prompt,
whatever its layers are called, so that prompts of different blueprints can be compared.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel

INPUT_LAYER: Final = "input"
"""The built-in layer that holds the text of the turn."""

SYSTEM_PROMPT_COMPONENT: Final = "system_prompt"
"""The component of layers that name no other."""

TOOLS_COMPONENT: Final = "tools_context"
"""Tool definitions, offered beside the messages or described in them."""

HISTORY_COMPONENT: Final = "history"
"""Messages of earlier turns."""

RAG_COMPONENT: Final = "rag_context"
"""Retrieved documents."""

QUERY_COMPONENT: Final = "query"
"""The input text of the turn."""

ROUNDS_COMPONENT: Final = "tool_rounds"
"""The tool calls of the open turn and their results, where its program is `loop`."""

MEDIA_COMPONENT: Final = "media"
"""Pictures, recordings and files, and the lines in the places of those left out."""

REASONING_COMPONENT: Final = "reasoning"
"""What the model reasoned in the tool rounds of the open turn, and before the replies of a history
that keeps it.
"""

OUTPUT_COMPONENT: Final = "output_schema"
"""The schema of the answer, in the prompt or beside it."""

STANDARD_COMPONENTS: Final = (
    SYSTEM_PROMPT_COMPONENT,
    TOOLS_COMPONENT,
    HISTORY_COMPONENT,
    RAG_COMPONENT,
    QUERY_COMPONENT,
)


MEDIA_LAYER: Final = "media"
"""The built-in layer of pictures, recordings and files beside the texts of messages."""

TOOL_CALLS_LAYER: Final = "tool_calls"
"""The built-in layer of the messages in which the model called tools."""

TOOL_RESULTS_LAYER: Final = "tool_results"
"""The built-in layer of the messages with the results of these tools, one for each call."""

REASONING_LAYER: Final = "reasoning"
"""The built-in layer with what the model reasoned before it called them, or replied in an earlier
turn; it is no text.
"""


OUTPUT_LAYER: Final = "output_schema"
"""The built-in layer with the schema of the answer, of a call that has `output`."""


REJECTED_LAYER: Final = "rejected_answer"
"""The built-in layer with the answer of the attempt before, which did not have that form."""

CORRECTION_LAYER: Final = "correction"
"""The built-in layer that says what was wrong with it."""


ROUNDS_LAYERS: Final = frozenset({TOOL_CALLS_LAYER, TOOL_RESULTS_LAYER})
"""The layers of tool rounds."""


class WhenContext(StrictModel):
    """True if the cartridge asks for this level of context."""

    context: str
    """A context level, such as `learning_profile`."""


class WhenAttribute(StrictModel):
    """True if the attribute was given and is neither empty nor false."""

    attribute: Name
    """The name of the attribute."""


class WhenPhase(StrictModel):
    """True while the session is in this phase."""

    phase: Name
    """The name of the phase."""


class WhenConfident(StrictModel):
    """True if the best entry of a retrieval is one to adapt: its confidence is high."""

    confident: Name
    """The name of the retrieval."""


class WhenUnsure(StrictModel):
    """True if a retrieval found nothing that its confidence is high for."""

    unsure: Name
    """The name of the retrieval."""


_tag_condition_object = build_discriminator("context", "attribute", "phase", "confident", "unsure")


def _tag_condition(condition: object) -> str | None:
    return "(word)" if isinstance(condition, str) else _tag_condition_object(condition)


LayerCondition = Annotated[
    Annotated[
        Literal["first_turn", "reply_redacted", "text_redacted", "step_failed"], Tag("(word)")
    ]
    | Annotated[WhenContext, Tag("(context)")]
    | Annotated[WhenAttribute, Tag("(attribute)")]
    | Annotated[WhenPhase, Tag("(phase)")]
    | Annotated[WhenConfident, Tag("(confident)")]
    | Annotated[WhenUnsure, Tag("(unsure)")],
    Discriminator(
        _tag_condition,
        custom_error_type="condition_kind",
        custom_error_message=(
            "a condition is `first_turn`, `reply_redacted`, `text_redacted`, `step_failed`,"
            " or one of: `context`, `attribute`, `phase`, `confident`, `unsure`"
        ),
    ),
]
"""The condition under which a layer is included.

`reply_redacted` is true for one call: the next one after a reply was withheld. `text_redacted` is
the same for what a person submitted. `first_turn` is the value of an input of that name if there is
one, otherwise it is true until a turn has been completed. `step_failed` is true when a step is
repeated because all its tools failed.
"""

ResolvedField = Literal["intent", "entity", "identifiers", "results"]
"""The parts of a resolver's answer that a prompt may include."""


class _LayerBase(StrictModel):
    component: Name = SYSTEM_PROMPT_COMPONENT
    """The component under which the layer's tokens are counted."""
    keep: Literal["always"] | None = None
    """`always` if no call that lists the layer may leave it out."""
    when: LayerCondition | None = None
    """The condition for including the layer; without one it is always included."""


class FileLayer(_LayerBase):
    """Text of a prompt file, found along the search path and pinned at the first call."""

    file: str
    """File name; may contain `{provider}` and attribute slots."""
    search: tuple[str, ...] | None = None
    """Folders to search instead of those of the blueprint."""
    required: bool | None = None
    """Whether a session without the file is refused when it opens. By default that is so with
    `keep: always`, and other layers are left out with a warning; `false` leaves out the warning.
    """

    @property
    def is_required(self) -> bool:
        """Whether no session can do without the file."""
        return self.keep == "always" if self.required is None else self.required


PromptCategory = Literal[
    "master_system",
    "visualization",
    "workflow_classification",
    "error_recovery",
    "conversation_execution",
    "genie_coordination",
    "rag_focused_execution",
]


class OverrideSpec(StrictModel):
    """The category of a prompt file, and whether providers have their own version."""

    category: PromptCategory
    """The category; the prompt file has the same name."""
    by: Literal["provider"] | None = None
    """`provider` if each provider may have its own file."""


class OverrideLayer(_LayerBase):
    """Text of a category, from a prompt file that a profile may replace by its own.

    The file is pinned like any other prompt file.
    """

    override: OverrideSpec
    """Which category of text."""


class TextLayer(_LayerBase):
    """Text written in the blueprint; `{name}` is replaced by an attribute.

    For a locale, `{name.name}` is the English name of its language.
    """

    text: str
    """The text, with slots."""


NOW_SLOTS: Final = ("date", "time", "weekday")
"""What a layer may say of the time of the turn."""


class NowLayer(_LayerBase):
    """The time of the turn in UTC: when it was begun, or went on after a person's approval.

    It is the recorded time of that event, the same in all calls until then, so that each prompt
    can be assembled again.
    """

    now: Annotated[str, Field(min_length=1)]
    """The text, with the slots `{date}` (2026-11-23), `{time}` (14:05) and `{weekday}`."""


class AttributeLayer(_LayerBase):
    """The value of an attribute given when the session opened."""

    attribute: Name
    """The name of the attribute."""


class FieldsLayer(_LayerBase):
    """Labelled values under a heading; an empty value gives no line."""

    heading: str = ""
    """Included even if no line follows."""
    fields: dict[str, str]
    """Maps a label to a path: `cartridge...`, `attributes...`, `session.phase` or
    `tools.most_steps`.
    """


class ChoicesLayer(_LayerBase):
    """One line for each recorded choice that has a label; left out if there is none."""

    heading: str = ""
    """The line above the choices."""
    each: Literal["session.choices"]
    """The list that gives the lines."""
    line: Literal["{context_label}"] = "{context_label}"
    """The template of one line."""


class ResolvedLayer(_LayerBase):
    """Labelled values of the resolver's answer for the turn, under a heading."""

    heading: str = ""
    """The line above the values; left out if there is no value."""
    resolved: Annotated[dict[str, ResolvedField], Field(min_length=1)]
    """Maps a label to a part of the resolver's answer; an empty value gives no line."""


class SegmentQuery(StrictModel):
    """Which segments of the library a layer requests."""

    scope: Name
    """The scope of the segments."""
    ref: str | None = None
    """Path to the reference: `attributes...`, `inputs...`, or `item...` of a list."""
    tier: str | None = None
    """Path to the highest tier that is included; without it all tiers are."""
    except_: Annotated[tuple[str, ...], Field(alias="except")] = ()
    """Types that are included only if a ladder step replaces other segments by them."""


class SegmentsLayer(_LayerBase):
    """Texts of the segment library, selected for every call and recorded with it."""

    segments: SegmentQuery
    """The segments, in the order of their ids."""
    each: str | None = None
    """Path to a list, `inputs...`; the layer gets one block for each item."""
    heading: str = ""
    """The line above each block; `{name}` is replaced by a value of the item."""


class InputLayer(_LayerBase):
    """The value of an input given with the turn."""

    input: Name
    """The name of the input."""


class SourceLayer(_LayerBase):
    """Text of a source that a package registers under `turnlog.sources`.

    The source is called at the first call, and its text is pinned like a prompt file.
    """

    source: Annotated[str, Field(min_length=1)]
    """The name under which the source is registered."""


PinnedLayer = FileLayer | OverrideLayer | SourceLayer
"""Layers whose text, or the absence of it, is pinned at the first call."""


class ToolsLayer(_LayerBase):
    """Tool descriptions as text: in full at first, by name afterwards."""

    tools: Literal["all"]
    """Which tools."""
    full: Literal["first_turn", "always"] = "first_turn"
    """When tools are described in full; otherwise only their names are listed."""
    adapt: Name | None = None
    """A retrieval: while it is confident, its best case is to be adapted, and only the names of the
    tools are listed.
    """


class PromptsLayer(_LayerBase):
    """Descriptions of the prompts that tool servers offer, as text."""

    prompts: Literal["all"]
    """Which prompts."""


class StepLayer(_LayerBase):
    """The goal of the current plan step, or the tool results of the turn so far."""

    step: Literal["goal", "results"]
    """`goal` or `results`."""


class ResultsLayer(_LayerBase):
    """Summaries of the previous turn's tool results, each with a name that a plan can refer to."""

    results: Literal["previous_turn"]
    """A plan step with `from: r1` is answered by the first of these results."""
    heading: str = "What tools gave in the turn before:"
    """The line above the results."""


class RetrievalLayer(_LayerBase):
    """What the turn took from the tenant's knowledge; a text for each entry, best first."""

    component: Name = RAG_COMPONENT
    """The component under which the layer's tokens are counted."""
    retrieval: Name
    """The name of the retrieval; it is made before the first call of the turn that lists it."""
    heading: str = ""
    """The line above the entries."""
    nothing: str = ""
    """The text where nothing was taken; without one the layer is left out."""


class CarryLayer(_LayerBase):
    """The summaries that were carried into the phases that the current one may see."""

    carry: Literal["phase"]
    """A summary belongs to the phase it was carried to, as the turns of that phase do."""
    text: str = "Summary from {from} phase: {summary}"
    """The template of the carried text, with the phase that was left and its summary; recorded with
    the move.
    """


LayerSpec = Annotated[
    Annotated[SegmentsLayer, Tag("(segments)")]
    | Annotated[FileLayer, Tag("(file)")]
    | Annotated[OverrideLayer, Tag("(override)")]
    | Annotated[TextLayer, Tag("(text)")]
    | Annotated[NowLayer, Tag("(now)")]
    | Annotated[AttributeLayer, Tag("(attribute)")]
    | Annotated[InputLayer, Tag("(input)")]
    | Annotated[FieldsLayer, Tag("(fields)")]
    | Annotated[ChoicesLayer, Tag("(each)")]
    | Annotated[ResolvedLayer, Tag("(resolved)")]
    | Annotated[SourceLayer, Tag("(source)")]
    | Annotated[ToolsLayer, Tag("(tools)")]
    | Annotated[PromptsLayer, Tag("(prompts)")]
    | Annotated[StepLayer, Tag("(step)")]
    | Annotated[ResultsLayer, Tag("(results)")]
    | Annotated[RetrievalLayer, Tag("(retrieval)")]
    | Annotated[CarryLayer, Tag("(carry)")],
    Discriminator(
        build_discriminator(
            # `carry` comes first because a carry layer has a `text` field too.
            *("carry", "segments", "file", "override", "text", "now", "attribute"),
            *(
                "input",
                "fields",
                "each",
                "resolved",
                "source",
                "tools",
                "prompts",
                "step",
                "results",
                "retrieval",
            ),
        ),
        custom_error_type="layer_source",
        custom_error_message=(
            "a layer needs one of: `segments`, `file`, `override`, `text`, `now`, `attribute`, "
            "`input`, `fields`, `each`, `resolved`, `source`, `tools`, `prompts`, `step`, "
            "`results`, `retrieval`, `carry`"
        ),
    ),
]
