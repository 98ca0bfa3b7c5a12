"""Events of the retrieval family: what a turn took from the knowledge, and what people think of it.

A retrieval is recorded before the call that uses it. The texts that were taken are blobs, so that
the prompt reproduces after an entry was edited or removed, or its index was built again.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.content import Content, Digest, Words
from turnlog.events.event_model import EventModel, ReplyTextEvent, StatelessEvent

CandidateOutcome = Literal["taken", "score", "efficiency", "feedback", "rank", "tokens"]
"""What became of a candidate: taken, or left out by the least score, the least efficiency or the
votes, because enough better ones were taken, or because it had no room within the token limit.
"""

NothingFoundPolicy = Literal["answer", "refuse", "reply"]
"""What a turn does when nothing was taken: ask the model anyway, fail, or reply without a model."""


QueryOrigin = Literal["text", "input", "pattern", "call"]
"""What the queries are: the text of the turn, the items of an input, the pieces that a pattern
divides a text into, or what a model wrote in a call of the turn.
"""


class QueryRank(EventModel):
    """That one query of several found an entry."""

    query: int
    """The number of the query, from 1."""
    rank: int
    """The place of the entry among what this query found, from 1."""
    confidence: float
    """Similarity of this query and the entry, from 0 to 1."""


class CandidateVote(EventModel):
    """A vote that counted for an entry: on the entry itself, or on a turn that had retrieved it."""

    session: str
    """The session in which the vote was given; it may be erased since."""
    sequence: int
    """The event of the vote in that session."""
    vote: Literal[-1, 0, 1]
    """1 for it, -1 against it, and 0 where the vote took an earlier one back."""


class RetrievalCandidate(EventModel):
    """An entry that the index found, with the figures by which it was taken or left out."""

    collection: str
    """The collection it belongs to."""
    entry: str
    """Its id within the collection."""
    revision: int
    """Sequence of the event of the knowledge that gave it this text."""
    kind: Literal["case", "document"]
    """A case to adapt, or a part of a document."""
    title: Words = ""
    """Its title."""
    digest: Digest
    """Digest of its text; the blob of that digest is kept where it was taken."""
    characters: int
    """Length of its text in code points."""
    tokens: int = 0
    """Tokens of its title and text in the prompt; 0 where they were not counted."""
    efficiency: float | None = None
    """How efficient the case was, from 0 to 1; None if unknown, and for documents."""
    feedback: int = 0
    """The sum of the votes on it at that time."""
    lexical: float | None = None
    """The score of its words; None if no word matched."""
    vector: float | None = None
    """The score of its vector; None if it was not among the nearest."""
    fused: float
    """Both scores joined by the index; with several queries that of its best rank."""
    score: float
    """The score it is ranked by: the reranker's, or else the joined one."""
    confidence: float
    """Similarity of query and entry, from 0 to 1; the least score is compared with it. Of several
    queries it is the nearest one's.
    """
    outcome: CandidateOutcome
    """What became of it."""
    found_by: tuple[QueryRank, ...] = ()
    """The queries that found it, where there were several; the one nearest to it comes first."""
    votes: tuple[CandidateVote, ...] = ()
    """The votes that `feedback` is the sum of, newest first, at most ten."""
    more_votes: int = 0
    """The number of older votes, which are in the sum and not named."""


class RetrievalLimits(EventModel):
    """The settings that a retrieval was made with."""

    k: int
    """Most entries that are taken."""
    tokens: int | None = None
    """Most tokens that are taken; adding stops at the first entry without room."""
    counter: str = ""
    """The counter of these tokens."""
    min_score: float | None = None
    """The least confidence of an entry that is taken."""
    min_efficiency: float | None = None
    """The least efficiency of a case that is taken; a case of unknown efficiency may be."""
    feedback: Literal["any", "not_negative"] = "any"
    """Whether entries with more votes against them than for them are left out."""
    confident_above: float | None = None
    """The confidence of the best entry above which prompts adapt it; None if none do."""


class QueriesRequested(EventModel):
    """A model writes the queries of a retrieval; the open turn waits for its call."""

    type: ClassVar[str] = "turnlog.queries-requested.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} · queries of {retrieval}"

    turn: int
    """The turn that continues after the call."""
    retrieval: str
    """The blueprint's name of the retrieval."""


class QueriesFailed(EventModel):
    """The call that writes queries failed; the turn continues, and its text is the query."""

    type: ClassVar[str] = "turnlog.queries-failed.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} · {retrieval} {code}: {detail}"

    turn: int
    """The turn that continues."""
    retrieval: str
    """The blueprint's name of the retrieval."""
    code: str
    """The failure code of the call, or `withheld`."""
    detail: Words
    """The reason for people."""


class KnowledgeRetrieved(EventModel):
    """A turn searched collections of the tenant's knowledge; recorded before the call it is for."""

    type: ClassVar[str] = "turnlog.knowledge-retrieved.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = (
        "turn {turn} · {retrieval} in {collections|list} · {candidates|count:candidate}"
        "[ · {nothing_found|flag:nothing taken}][ · {unavailable}]"
    )

    turn: int
    """The turn number."""
    call: str
    """The call it was first made for."""
    retrieval: str
    """The blueprint's name of the retrieval."""
    query: Content
    """What was sought, and nothing of the prompt; of several queries the first."""
    collections: tuple[str, ...]
    """The collections that were searched."""
    limits: RetrievalLimits
    """The settings."""
    candidates: tuple[RetrievalCandidate, ...] = ()
    """What the index found, as ranked."""
    reranker: str | None = None
    """What ranked the candidates; None if the index did."""
    index: str = ""
    """Version of the index's rules."""
    embedder: str = ""
    """Name and version of what computed the vectors."""
    knowledge_position: int = 0
    """Sequence of the tenant's knowledge up to which the index contained it."""
    votes_position: int = 0
    """Stream sequence of the sessions up to which the index contained the votes."""
    nothing_found: NothingFoundPolicy | None = None
    """What the turn does, since nothing was taken; None if something was."""
    unavailable: str | None = None
    """Why there was no search, as a code; the turn went on without it. None if there was one."""
    origin: QueryOrigin = "text"
    """What the queries are."""
    more_queries: tuple[Content, ...] = ()
    """The queries after the first, whose results are joined with its own."""
    unsearched: int = 0
    """The number of queries beyond the limit, which were not searched for."""
    query_call: str | None = None
    """The call that was to write the queries; the origin is `text` if it gave none. None without
    such a call.
    """

    @property
    def queries(self) -> tuple[Content, ...]:
        """Everything that was sought, in order."""
        return (self.query, *self.more_queries)

    @property
    def taken(self) -> tuple[RetrievalCandidate, ...]:
        """The candidates that were taken, best first."""
        return tuple(each for each in self.candidates if each.outcome == "taken")


FeedbackVote = Literal["up", "down", "none"]
"""A vote; `none` takes the vote before it back."""


class FeedbackGiven(StatelessEvent, ReplyTextEvent):
    """Somebody judged the reply of a turn; the last vote counts for what the turn had taken."""

    type: ClassVar[str] = "turnlog.feedback-given.v1"
    leaf: ClassVar[str] = "turn.feedback"
    sentence: ClassVar[str] = "turn {turn} · {vote}[ {comment|content}]"
    reply_texts: ClassVar[tuple[str, ...]] = ("comment",)

    turn: int
    """The turn number."""
    vote: FeedbackVote
    """The vote."""
    comment: Content | None = None
    """What was said to it; None if nothing was."""


class EntryFeedbackGiven(StatelessEvent, ReplyTextEvent):
    """Somebody judged an entry that a turn had taken; its last vote counts in place of the turn's.

    A vote `none` takes the one on the entry back, and the vote on the turn counts for it again.
    """

    type: ClassVar[str] = "turnlog.entry-feedback-given.v1"
    leaf: ClassVar[str] = "turn.feedback"
    sentence: ClassVar[str] = "turn {turn} · {collection}/{entry} · {vote}[ {comment|content}]"
    reply_texts: ClassVar[tuple[str, ...]] = ("comment",)

    turn: int
    """The turn number."""
    collection: str
    """The collection of the entry."""
    entry: str
    """Its id within the collection."""
    revision: int
    """The revision of it that the turn had taken."""
    vote: FeedbackVote
    """The vote."""
    comment: Content | None = None
    """What was said to it; None if nothing was."""


KnownRetrievalEvent = (
    QueriesRequested | QueriesFailed | KnowledgeRetrieved | FeedbackGiven | EntryFeedbackGiven
)
"""The events of retrievals and feedback that this release writes and reads."""
