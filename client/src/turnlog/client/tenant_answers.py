"""What is sent and answered about what the sessions of a tenant share.

That is knowledge, users' own prompts, quotas and usage. The answers follow the same rules as those
about sessions, and the same test compares them.
"""

from __future__ import annotations

from typing import Literal, Required, TypedDict

from turnlog.client.answers import Answer, CostAnswer

EntryKind = Literal["case", "document"]
"""A case to be adapted, or a part of a document."""

PromptCategory = Literal[
    "master_system",
    "visualization",
    "workflow_classification",
    "error_recovery",
    "conversation_execution",
    "genie_coordination",
    "rag_focused_execution",
]
"""The kind of prompt file that a user may replace for their own turns."""

UsageGrouping = Literal["all", "user", "profile", "blueprint", "model", "day", "hour"]
"""What the turns of a group have in common."""


class EntryForm(TypedDict, total=False):
    """An entry of knowledge as it is to be; what is left out is empty, and it is a document."""

    text: Required[str]
    """The text, at most 32,000 bytes."""
    kind: EntryKind
    """`case` or `document`."""
    title: str
    """What it is about, in one line; a case's is the question that it answers."""
    source: str
    """The file it comes from."""
    tags: list[str]
    """Words to sort entries by."""
    attributes: dict[str, str]
    """Further properties."""
    efficiency: float
    """How efficient a case was, from 0 to 1."""


class ImportedEntryForm(EntryForm):
    """One entry of an import."""

    id: str
    """The id within the collection; the same id later edits the entry."""


class KnowledgeChangeAnswer(Answer):
    """What a change of the knowledge did; it may have had nothing to do."""

    collection: str
    """The collection."""
    added: int
    """The number of new entries."""
    edited: int
    """The number of changed entries."""
    removed: int
    """The number of removed entries."""
    sequence: int
    """The sequence of the knowledge after it: a list with this `min_sequence` shows it."""


class CollectionEntry(Answer):
    """A collection in a list."""

    collection: str
    """Its name."""
    cases: int
    """How many cases it contains."""
    documents: int
    """How many parts of documents it contains."""
    characters: int
    """The length of all texts in code points."""


class CollectionListAnswer(Answer):
    """The collections of the knowledge, by name."""

    collections: tuple[CollectionEntry, ...]
    """The collections."""
    sequence: int
    """The sequence of the knowledge."""


class EntryAnswer(Answer):
    """An entry of a collection as it is now."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    kind: EntryKind
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str | None = None
    """The text; None when it was erased."""
    source: str | None = None
    """The file that an import read it from."""
    tags: tuple[str, ...]
    """Words that authors sort entries by."""
    attributes: dict[str, str]
    """Further properties."""
    efficiency: float | None = None
    """How efficient a case was, from 0 to 1."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    edited_at: str
    """When that was recorded."""
    edited_by: str
    """The actor of that."""


class EntryListAnswer(Answer):
    """A page of entries, by id."""

    entries: tuple[EntryAnswer, ...]
    """The entries."""
    next: str | None = None
    """The `after` of the next page; None on the last page."""


class HitAnswer(Answer):
    """An entry that a search found."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    kind: EntryKind
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str
    """The text."""
    efficiency: float | None = None
    """How efficient a case was."""
    feedback: int
    """The sum of the votes on turns that retrieved it."""
    fused_score: float
    """What the hits are ordered by."""
    confidence: float
    """How near it is to what was sought, from 0 to 1."""


class KnowledgeSearchAnswer(Answer):
    """The hits of a search, best first."""

    hits: tuple[HitAnswer, ...]
    """The hits."""
    sequence: int
    """The sequence of the knowledge that was searched."""


class OverrideEntry(Answer):
    """A user's own text in place of a prompt file, in a list."""

    user: str
    """The user's name."""
    blueprint: str
    """The name of the blueprint."""
    category: str
    """The category of the prompt file."""
    profile: str | None = None
    """The only profile it is for; None if it is for all."""
    provider: str | None = None
    """The only provider it is for; None if it is for all."""
    path: str
    """The file that it stands for, in the folder of the blueprint; manifests have it too."""
    version: int
    """The version, from 1; manifests have it too."""
    digest: str
    """Digest of the text."""
    characters: int
    """Length of the text in code points."""
    at: str
    """When it was set."""


class OverrideAnswer(OverrideEntry):
    """A user's own text."""

    sequence: int
    """The sequence of the last edit of any user."""
    text: str
    """The text."""
    includes: tuple[str, ...]
    """Names in braces that are layers of the blueprint: included there, as in a prompt file."""
    unknown_names: tuple[str, ...]
    """Names in braces that are no layers; they stay in the prompt as they are."""


class OverrideListAnswer(Answer):
    """The own texts of a user."""

    sequence: int
    """The sequence of the last edit of any user; 0 before the first."""
    overrides: tuple[OverrideEntry, ...]
    """By blueprint and path."""


class OverrideRemovalAnswer(Answer):
    """A user's own text was removed."""

    sequence: int
    """The sequence of the removal."""


class UserLimitsAnswer(Answer):
    """The limits of a user; None is unlimited."""

    user: str
    """The user's name."""
    input_tokens: int | None = None
    """Tokens sent to models in a calendar month, UTC."""
    output_tokens: int | None = None
    """Tokens received from models in a calendar month, UTC."""
    requests_per_hour: int | None = None
    """Turns that begin in a clock hour, UTC."""
    requests_per_day: int | None = None
    """Turns that begin in a calendar day, UTC."""


class LimitUseAnswer(Answer):
    """One limit of a user, and how much of it is left."""

    name: str
    """`input_tokens`, `output_tokens`, `requests_per_hour` or `requests_per_day`."""
    limit: int
    """The limit."""
    used: int
    """What is used of it."""
    reserved: int
    """What turns that are not settled may still use."""
    left: int
    """What is left; a turn is allowed while it is not 0, and may use more than that."""
    resets_at: str
    """When nothing of it is used any more."""


class QuotaAnswer(Answer):
    """The quota of a user in a month, and whether a turn is allowed now."""

    period: str
    """The month, such as `2026-11`, UTC."""
    allowed: bool
    """Whether a turn is allowed now."""
    message: str
    """Why it is not allowed; empty if it is."""
    limits: UserLimitsAnswer
    """All limits."""
    uses: tuple[LimitUseAnswer, ...]
    """The limits that the user has, with what is left of each."""
    input_tokens: int
    """Tokens sent by the turns that were settled since the user has a quota."""
    output_tokens: int
    """Tokens received by them."""
    unsettled_turns: int
    """Turns that are not settled yet."""


class QuotaListAnswer(Answer):
    """The users who have a limit."""

    quotas: tuple[UserLimitsAnswer, ...]
    """By name."""


class UsageAnswer(Answer):
    """What the turns of a group used."""

    group: str | None = None
    """What they have in common; None for all turns, and where it is unknown."""
    turns: int
    """Turns that somebody asked for."""
    completed: int
    """Turns that got a reply."""
    failed: int
    """Turns that failed."""
    cancelled: int
    """Turns that were cancelled."""
    open: int
    """Turns that are not over yet."""
    guided: int
    """Turns whose prompts included something that was retrieved."""
    activation_rate: float | None = None
    """Share of the turns that were guided by retrieval; None without a turn."""
    success_rate: float | None = None
    """Share of completed turns among those that completed or failed; None without one."""
    input_tokens: int
    """Tokens sent by all attempts, as far as known."""
    output_tokens: int
    """Tokens received by all attempts, as far as known."""
    total_tokens: int
    """Tokens sent and received."""
    unknown_attempts: int
    """Attempts whose tokens nobody counted."""
    saved_tokens: int
    """Output tokens that guided turns took less than the turn before them in their session."""
    saving_turns: int
    """Guided turns that took less."""
    average_saved_tokens: float | None = None
    """The mean of what a saving turn saved; None without one."""
    saved_cost: CostAnswer
    """What the saved tokens would have cost."""
    cost: CostAnswer
    """What their attempts cost."""


class UsageReportAnswer(Answer):
    """What turns used, as far as the read models have caught up."""

    total: UsageAnswer
    """What all of them used."""
    groups: tuple[UsageAnswer, ...]
    """What each group used, by its name; empty where no grouping is asked for."""
    models: dict[str, int]
    """Turns by the model that was called last in them."""
    profiles: dict[str, int]
    """Turns by their profile."""
