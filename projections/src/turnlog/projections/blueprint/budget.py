from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, assert_never

from pydantic import Discriminator, Field, JsonValue, Tag

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.ladder import Ladder
from turnlog.projections.blueprint.strict import Name, Strict

LONGEST_TOKEN: Final = 128
"""Characters of the longest token in any supported vocabulary."""
Tokens = Annotated[int, Field(ge=1, le=100_000_000)]


class CharactersPerToken(Strict):
    """Counts one token for every `chars_per_token` characters, rounded up."""

    chars_per_token: Annotated[int, Field(ge=1, le=1_000)]
    """Characters per token."""


class Tiktoken(Strict):
    """Counts with a tiktoken vocabulary that is installed with the service; nothing is downloaded.
    """

    tiktoken: Literal["cl100k_base", "o200k_base", "p50k_base"]
    """The name of the vocabulary."""


CounterSpec = Annotated[
    Annotated[CharactersPerToken, Tag("(chars_per_token)")]
    | Annotated[Tiktoken, Tag("(tiktoken)")],
    Discriminator(
        form_by("chars_per_token", "tiktoken"),
        custom_error_type="counter_kind",
        custom_error_message="a counter is one of: `chars_per_token`, `tiktoken`",
    ),
]


def widest(counter: CounterSpec) -> int:
    """Return the largest number of characters that one token can stand for."""
    match counter:
        case CharactersPerToken(chars_per_token=characters):
            return characters
        case Tiktoken():
            return LONGEST_TOKEN
        case _ as never:
            assert_never(never)


class ByInput(Strict):
    """A limit that a turn may set by an input."""

    default: Tokens
    """The limit if the turn does not set the input."""
    input: Name
    """The name of the input, which must be of type `int`."""


def _form(limit: object) -> str:
    return "(default)" if isinstance(limit, Mapping | ByInput) else "(tokens)"


Limit = Annotated[
    Annotated[Tokens, Tag("(tokens)")] | Annotated[ByInput, Tag("(default)")],
    Discriminator(_form),
]


class Section(Strict):
    """A limit for one layer, enforced before the limit of the whole prompt."""

    tokens: Limit
    """Maximum tokens of the layer's content, without delimiters."""
    ladder: Ladder = ()
    """Steps that are applied to this layer only."""


class Component(Strict):
    """A limit for everything that is counted under one component."""

    tokens: Limit
    """Maximum tokens of the component, with the delimiters around its texts."""
    fixed: bool = False
    """True if the component is never trimmed; the call is refused if it exceeds the limit."""
    ladder: Ladder = ()
    """Steps that are applied to this component. What is still too long afterwards is accepted if
    the whole prompt fits.
    """


class Budget(Strict):
    """The token limit of a call, its counter, and the steps that make a prompt fit."""

    tokens: Limit
    """Maximum tokens of the whole prompt."""
    counter: CounterSpec = CharactersPerToken(chars_per_token=4)
    """How tokens are counted."""
    sections: dict[Name, Section] = {}
    """Limits of single layers."""
    components: dict[Name, Component] = {}
    """Limits of components, enforced once the sections fit."""
    ladder: Ladder = ()
    """Steps for the whole prompt; each is repeated until it changes nothing before the next begins.
    """

    @property
    def steps(self) -> Ladder:
        """The steps of all its ladders."""
        limited: tuple[Section | Component, ...] = (
            *self.sections.values(),
            *self.components.values(),
        )
        return (*(step for each in limited for step in each.ladder), *self.ladder)


def allowed(limit: Limit, inputs: Mapping[str, JsonValue]) -> int:
    """Return a limit for one turn, read from its inputs if the limit names one."""
    if isinstance(limit, int):
        return limit
    given = inputs.get(limit.input)
    return given if isinstance(given, int) else limit.default
