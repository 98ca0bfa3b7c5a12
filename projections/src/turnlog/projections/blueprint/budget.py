from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, assert_never

from pydantic import Discriminator, Field, JsonValue, Tag

from turnlog.events.forms import build_discriminator
from turnlog.projections.blueprint.ladder import Ladder
from turnlog.projections.blueprint.strict import Name, StrictModel

MAX_CHARACTERS_PER_TOKEN: Final = 128
"""Characters of the longest token in any supported vocabulary."""
TokenCount = Annotated[int, Field(ge=1, le=100_000_000)]


class CharacterCounterSpec(StrictModel):
    """Counts one token for every `chars_per_token` characters, rounded up."""

    chars_per_token: Annotated[int, Field(ge=1, le=1_000)]
    """Characters per token."""


class TiktokenCounterSpec(StrictModel):
    """Counts with a tiktoken vocabulary that is installed with the service; nothing is downloaded.
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


class InputTokenLimit(StrictModel):
    """A limit that a turn may set by an input."""

    default: TokenCount
    """The limit if the turn does not set the input."""
    input: Name
    """The name of the input, which must be of type `int`."""


def _get_limit_tag(limit: object) -> str:
    return "(default)" if isinstance(limit, Mapping | InputTokenLimit) else "(tokens)"


TokenLimit = Annotated[
    Annotated[TokenCount, Tag("(tokens)")] | Annotated[InputTokenLimit, Tag("(default)")],
    Discriminator(_get_limit_tag),
]


class SectionBudget(StrictModel):
    """A limit for one layer, enforced before the limit of the whole prompt."""

    tokens: TokenLimit
    """Maximum tokens of the layer's content, without delimiters."""
    ladder: Ladder = ()
    """Steps that are applied to this layer only."""


class ComponentBudget(StrictModel):
    """A limit for everything that is counted under one component."""

    tokens: TokenLimit
    """Maximum tokens of the component, with the delimiters around its texts."""
    fixed: bool = False
    """True if the component is never trimmed; the call is refused if it exceeds the limit."""
    ladder: Ladder = ()
    """Steps that are applied to this component. What is still too long afterwards is accepted if
    the whole prompt fits.
    """


class BudgetSpec(StrictModel):
    """The token limit of a call, its counter, and the steps that make a prompt fit."""

    tokens: TokenLimit
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

    @property
    def steps(self) -> Ladder:
        """The steps of all its ladders."""
        limited: tuple[SectionBudget | ComponentBudget, ...] = (
            *self.sections.values(),
            *self.components.values(),
        )
        return (*(step for each in limited for step in each.ladder), *self.ladder)


def resolve_limit(limit: TokenLimit, inputs: Mapping[str, JsonValue]) -> int:
    """Return a limit for one turn, read from its inputs if the limit names one."""
    if isinstance(limit, int):
        return limit
    given = inputs.get(limit.input)
    return given if isinstance(given, int) else limit.default
