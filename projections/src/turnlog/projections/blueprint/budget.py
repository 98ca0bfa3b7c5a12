"""Budgets as an author writes them: how much a call may hold, who counts it, what goes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, assert_never

from pydantic import Discriminator, Field, JsonValue, Tag

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.ladder import Ladder
from turnlog.projections.blueprint.strict import Name, Strict

LONGEST_TOKEN: Final = 128
"""Characters that the longest token of any vocabulary stands for."""
Tokens = Annotated[int, Field(ge=1, le=100_000_000)]


class CharactersPerToken(Strict):
    """Counts a token for every so many characters, and one for what is left over."""

    chars_per_token: Annotated[int, Field(ge=1, le=1_000)]
    """How many characters make a token."""


class Tiktoken(Strict):
    """Counts by a vocabulary that comes with the service; nothing is fetched."""

    tiktoken: Literal["cl100k_base", "o200k_base", "p50k_base"]
    """Which one."""


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
    """Give how many characters a token may stand for at the most."""
    match counter:
        case CharactersPerToken(chars_per_token=characters):
            return characters
        case Tiktoken():
            return LONGEST_TOKEN
        case _ as never:
            assert_never(never)


class ByInput(Strict):
    """A number that a turn may bring along."""

    default: Tokens
    """What it is where the turn says nothing."""
    input: Name
    """The input that says it, of type `int`."""


def _form(limit: object) -> str:
    return "(default)" if isinstance(limit, Mapping | ByInput) else "(tokens)"


Limit = Annotated[
    Annotated[Tokens, Tag("(tokens)")] | Annotated[ByInput, Tag("(default)")],
    Discriminator(_form),
]


class Section(Strict):
    """A layer with a limit of its own, which is seen to before that of the whole."""

    tokens: Limit
    """Tokens its content may have, fences and all other layers apart."""
    ladder: Ladder = ()
    """The steps, taken on this layer alone."""


class Component(Strict):
    """All that is counted under one name, with a limit of its own."""

    tokens: Limit
    """Tokens it should have at the most, with all that stands around its texts."""
    fixed: bool = False
    """Whether it is never cut, and refused where it has more."""
    ladder: Ladder = ()
    """The steps, taken on what is counted under it; what they leave too long may stand as long as
    the whole prompt has room for it."""


class Budget(Strict):
    """How much a call may hold, who counts it, and what goes first."""

    tokens: Limit
    """Tokens the whole prompt may have."""
    counter: CounterSpec = CharactersPerToken(chars_per_token=4)
    """Who counts."""
    sections: dict[Name, Section] = {}
    """Layers with limits of their own."""
    components: dict[Name, Component] = {}
    """Components with limits of their own, seen to once the sections fit."""
    ladder: Ladder = ()
    """The steps, each repeated until it is exhausted before the next is taken."""

    @property
    def steps(self) -> Ladder:
        """The steps of all its ladders."""
        limited: tuple[Section | Component, ...] = (
            *self.sections.values(),
            *self.components.values(),
        )
        return (*(step for each in limited for step in each.ladder), *self.ladder)


def allowed(limit: Limit, inputs: Mapping[str, JsonValue]) -> int:
    """Give a limit as it is for one turn."""
    if isinstance(limit, int):
        return limit
    given = inputs.get(limit.input)
    return given if isinstance(given, int) else limit.default
