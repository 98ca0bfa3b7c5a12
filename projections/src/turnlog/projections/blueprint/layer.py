"""Layers as an author writes them: where a text comes from, and when it stands in a call.

Conditions are a fixed vocabulary, and sources are data; there is no language to evaluate.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.components import SYSTEM_PROMPT
from turnlog.projections.blueprint.strict import Name, Strict


class WhenContext(Strict):
    """The cartridge asks for this level of context."""

    context: str
    """A level, such as `learning_profile`."""


class WhenAttribute(Strict):
    """An attribute was given, and is not empty or false."""

    attribute: Name
    """Which one."""


class WhenPhase(Strict):
    """The session is in a phase."""

    phase: Name
    """Which one."""


When = (
    Literal["first_turn", "reply_redacted", "step_failed"] | WhenContext | WhenAttribute | WhenPhase
)
"""`reply_redacted` holds for one call: the next one after a reply was withheld. `first_turn` is
what an input of that name says, else it holds until a turn has been completed. `step_failed` holds
where a step is taken once more, since all its tools failed."""


Found = Literal["intent", "entity", "identifiers", "results"]
"""What a resolver says of a turn, as far as a prompt may tell of it."""


class _Layer(Strict):
    component: Name = SYSTEM_PROMPT
    """What the layer's tokens are counted under."""
    keep: Literal["always"] | None = None
    """Whether it may never be left out of a call that lists it."""
    when: When | None = None
    """The condition under which it stands in a call at all."""


class FileLayer(_Layer):
    """Text from a prompt file, found along the search chain and pinned at the first call."""

    file: str
    """File name; `{provider}` and attributes may stand in it."""
    search: tuple[str, ...] | None = None
    """Folders to look in instead of the blueprint's own chain."""


Category = Literal[
    "master_system",
    "visualization",
    "workflow_classification",
    "error_recovery",
    "conversation_execution",
    "genie_coordination",
    "rag_focused_execution",
]


class Override(Strict):
    """Which text, and what else there may be one for."""

    category: Category
    """What it is for; its file has that name."""
    by: Literal["provider"] | None = None
    """Whether each provider may have a text of its own."""


class OverrideLayer(_Layer):
    """Text of a category, from a prompt file that a profile may have in words of its own.

    It is pinned like any prompt file.
    """

    override: Override
    """Which text."""


class TextLayer(_Layer):
    """Text written in the blueprint; attributes may stand in it as `{name}`.

    Of a locale, `{name.name}` is the language in English.
    """

    text: str
    """The text."""


class AttributeLayer(_Layer):
    """Text given when the session opened."""

    attribute: Name
    """Which attribute."""


class FieldsLayer(_Layer):
    """Labelled values under a heading; an empty value leaves no line."""

    heading: str = ""
    """Stands even when there is no line below it."""
    fields: dict[str, str]
    """Label to a path: `cartridge...`, `attributes...` or `session.phase`."""


class ChoicesLayer(_Layer):
    """A line for each choice with a label; without any, the layer is left out."""

    heading: str = ""
    """Stands above the lines."""
    each: Literal["session.choices"]
    """What there is a line for."""
    line: Literal["{context_label}"] = "{context_label}"
    """The line."""


class ResolvedLayer(_Layer):
    """Labelled values of what the resolver said of the turn, under a heading."""

    heading: str = ""
    """Stands above the lines; without any line it is left out too."""
    resolved: Annotated[dict[str, Found], Field(min_length=1)]
    """Label to what was found; an empty value leaves no line."""


class Segments(Strict):
    """Which segments of the library."""

    scope: Name
    """Their scope."""
    ref: str | None = None
    """Path to their reference: `attributes...`, `inputs...`, or `item...` of a list."""
    tier: str | None = None
    """Path to the highest tier that may stand; without one every tier may."""
    except_: Annotated[tuple[str, ...], Field(alias="except")] = ()
    """Types that do not stand by themselves; a ladder may put them in place of the others."""


class SegmentsLayer(_Layer):
    """Texts of the library, fetched anew for every call and recorded with it."""

    segments: Segments
    """Which ones, in the order of their ids."""
    each: str | None = None
    """Path to a list, `inputs...`: the layer has a piece for each of its items."""
    heading: str = ""
    """The line above each piece; what an item says may stand in it as `{name}`."""


class InputLayer(_Layer):
    """What a turn brings along beside its text."""

    input: Name
    """Which input."""


class SourceLayer(_Layer):
    """Text from a source that a package registers under `turnlog.sources`.

    It is asked at the first call and pinned like a prompt file.
    """

    source: Annotated[str, Field(min_length=1)]
    """The name it is registered by."""


Pinned = FileLayer | OverrideLayer | SourceLayer
"""Layers whose text is fixed at the first call, also when there is none."""


class ToolsLayer(_Layer):
    """What tools there are, told as a text: in full at first, by their names from then on."""

    tools: Literal["all"]
    """Which ones."""
    full: Literal["first_turn", "always"] = "first_turn"
    """When they are told in full; otherwise they are only named."""


class PromptsLayer(_Layer):
    """What prompts the servers of tools have, told as a text."""

    prompts: Literal["all"]
    """Which ones."""


class StepLayer(_Layer):
    """What the plan says of the step that is taken, or what the turn's tools gave so far."""

    step: Literal["goal", "results"]
    """Which of the two."""


class ResultsLayer(_Layer):
    """What tools gave in the turn before, each in summary and by a name a plan can point at."""

    results: Literal["previous_turn"]
    """A plan's step that says `from: r1` is done by the first of them."""
    heading: str = "What tools gave in the turn before:"
    """The line above them."""


class CarryLayer(_Layer):
    """What was told of the phase before, when the session moved on from it."""

    carry: Literal["phase"]
    """It stands for as long as the session is in the phase it was carried to."""
    text: str = "Summary from {from} phase: {summary}"
    """Its words, which the record of the move holds: the phase left, and what is told of it."""


Layer = Annotated[
    Annotated[SegmentsLayer, Tag("(segments)")]
    | Annotated[FileLayer, Tag("(file)")]
    | Annotated[OverrideLayer, Tag("(override)")]
    | Annotated[TextLayer, Tag("(text)")]
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
    | Annotated[CarryLayer, Tag("(carry)")],
    Discriminator(
        form_by(
            # What is carried has a text as well
            *("carry", "segments", "file", "override", "text", "attribute", "input"),
            *("fields", "each", "resolved", "source", "tools", "prompts", "step", "results"),
        ),
        custom_error_type="layer_source",
        custom_error_message=(
            "a layer needs one of: `segments`, `file`, `override`, `text`, `attribute`, `input`, "
            "`fields`, `each`, `resolved`, `source`, `tools`, `prompts`, `step`, `results`, "
            "`carry`"
        ),
    ),
]
