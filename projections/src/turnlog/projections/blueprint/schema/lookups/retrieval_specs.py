"""Retrieval specs: what a turn takes from the tenant's knowledge, and what it does without.

The same settings are given at three places. Those of the retrieval hold for all profiles, a profile
may give its own, and those under `lock` cannot be changed by any profile.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel

MAX_TAKEN: Final = 24
"""Most entries that a retrieval may take; the index returns no more."""

DEFAULT_MAX_DOCS: Final = 3

MAX_QUERIES: Final = 32
"""Most queries of one retrieval."""


def _expand_single_name(written: object) -> object:
    """Expand `collections: cases` to a list of one; a list is refused where a name may stand."""
    if isinstance(written, list):
        return tuple(cast("list[object]", written))
    return (written,) if isinstance(written, str) else written


CollectionNames = Annotated[
    tuple[Name, ...],
    Field(min_length=1),
    BeforeValidator(_expand_single_name, json_schema_input_type=Name | list[Name]),
]


class FixedReply(StrictModel):
    """A reply without a model."""

    reply: Annotated[str, Field(min_length=1)]
    """The text of the reply."""


def _tag_policy(policy: object) -> str:
    return "(word)" if isinstance(policy, str) else "(reply)"


NothingFound = Annotated[
    Annotated[Literal["answer", "refuse"], Tag("(word)")] | Annotated[FixedReply, Tag("(reply)")],
    Discriminator(_tag_policy),
]
"""What a turn does when nothing was taken: ask the model anyway, fail, or reply without it."""


class InputQueries(StrictModel):
    """A query for each item of an input."""

    input: Name
    """The input: a list, or a text, which is one query."""


class PatternQueries(StrictModel):
    """A query for each piece of a text, such as a hunk of a diff or a section of a page."""

    pattern: Annotated[str, Field(min_length=1)]
    """A piece begins at each line that this pattern of Rust's `regex` matches, and ends before the
    next one. What comes before the first is no query.
    """
    input: Name | None = None
    """The input whose text is divided; without one it is the text of the turn."""


class CallQueries(StrictModel):
    """Queries that a model writes in a call of the turn, before the retrieval."""

    call: Name
    """The call, whose answer is a JSON list of queries, or one query a line."""
    at_most: Annotated[int, Field(ge=1, le=MAX_QUERIES)] = 5
    """Most queries of an answer that are searched for."""


QueriesSpec = Annotated[
    Annotated[PatternQueries, Tag("(pattern)")]
    | Annotated[CallQueries, Tag("(call)")]
    | Annotated[InputQueries, Tag("(input)")],
    Discriminator(
        build_discriminator("pattern", "call", "input"),
        custom_error_type="queries_kind",
        custom_error_message="`queries` has an `input`, a `pattern` or a `call`",
    ),
]
"""Where the queries of a retrieval come from; where that gives none, the text of the turn is it."""


class SelectionSettings(StrictModel):
    """Settings that a retrieval has for all profiles, and that a profile may change."""

    k: Annotated[int, Field(ge=1, le=MAX_TAKEN)] | None = None
    """Most entries that are taken, over all collections together."""
    max_docs: Annotated[int, Field(ge=1, le=MAX_TAKEN)] | None = None
    """Most entries for each collection: `k` is this times the number of collections. 3 if neither
    is given.
    """
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """The least confidence of an entry that is taken."""
    min_efficiency: Annotated[float, Field(ge=0, le=1)] | None = None
    """The least efficiency of a case that is taken; a case of unknown efficiency may be."""
    feedback: Literal["any", "not_negative"] | None = None
    """`not_negative` to leave out entries with more votes against them than for them."""
    tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most tokens that are taken; adding stops at the first entry without room."""
    rerank: bool | Annotated[str, Field(min_length=1)] | None = None
    """`true` to rank what the index found by words and meaning, or the name of a reranker that a
    package registers under `turnlog.rerankers`.
    """
    confident_above: Annotated[float, Field(ge=0, le=1)] | None = None
    """The confidence of the best entry above which the retrieval is confident; 0.85 if not given.
    """
    nothing_found: NothingFound | None = None
    """`answer` (without what was sought), `refuse` (the turn fails), or a `reply` without a model.
    """

    @model_validator(mode="after")
    def _check_one_size(self) -> Self:
        if self.k is not None and self.max_docs is not None:
            message = "`k` is for all collections and `max_docs` for each; give one of the two"
            raise ValueError(message)
        return self


class RetrievalSettings(SelectionSettings):
    """Settings of a retrieval that a profile may change, and a lock may fix."""

    collections: CollectionNames | None = None
    """The collections that are searched."""


class RetrievalSpec(SelectionSettings):
    """A retrieval, for all profiles."""

    collections: CollectionNames
    """The collections that are searched."""
    queries: QueriesSpec | None = None
    """What is sought, if it is not the text of the turn."""
    lock: RetrievalSettings = RetrievalSettings()
    """Settings that no profile may change."""

    def resolve_settings(self, profile: RetrievalSettings | None) -> ResolvedRetrieval:
        """Return the settings under a profile: its own over these, and the lock over both."""
        layers: tuple[SelectionSettings, ...] = (self, *((profile,) if profile else ()), self.lock)
        values: dict[str, object] = {}
        for layer in layers:
            given = {
                word: getattr(layer, word)
                for word in RetrievalSettings.model_fields
                if word in layer.model_fields_set
            }
            # The size of a later layer replaces the other word for it of an earlier one.
            if {"k", "max_docs"} & given.keys():
                values = {word: each for word, each in values.items() if word not in _SIZE_WORDS}
            values |= {word: each for word, each in given.items() if each is not None}
        return ResolvedRetrieval.model_validate(values)


_SIZE_WORDS: Final = frozenset({"k", "max_docs"})


class ResolvedRetrieval(StrictModel):
    """The settings of a retrieval under one profile."""

    collections: tuple[Name, ...]
    k: int | None = None
    max_docs: int = DEFAULT_MAX_DOCS
    min_score: float | None = None
    min_efficiency: float | None = None
    feedback: Literal["any", "not_negative"] = "any"
    tokens: int | None = None
    rerank: bool | str = False
    confident_above: float = 0.85
    nothing_found: NothingFound = "answer"

    @property
    def most_taken(self) -> int:
        """The most entries that are taken, over all collections together."""
        return min(self.k or self.max_docs * len(self.collections), MAX_TAKEN)
