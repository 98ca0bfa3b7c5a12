"""The manifest: what one call's prompt includes, part by part, and why.

It records sources and digests, not text. A part refers to the event or blob that holds its text, so
the prompt can be rebuilt from the log and compared. An unchanged run of history is one part,
however many turns it spans.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from turnlog.events.content import SEALED, Digest, PersonName, WordDigest, Words
from turnlog.events.event_model import EventModel, build_discriminator
from turnlog.events.recorded_reasoning import REPLY_REASONING_FIELD

MessageRole = Literal["system", "user", "assistant", "tool"]

PartRole = MessageRole | Literal["tools", "tool_call", "reasoning", "response_format"]

PartTreatment = Literal[
    "kept", "trimmed", "compressed", "dropped", "condensed", "summarised", "absent"
]
"""What was done to a part. `dropped` was removed to fit the budget, `absent` had no text."""

CondenseRule = Literal["repeats-1", "repeats-2", "duplicates-1", "results-1"]
"""A rule by which turns are condensed; its result for the same texts never changes."""


class BlobSource(EventModel):
    """The text is a blob: a file of the blueprint, or a user's own text in its place."""

    digest: Digest
    """Digest of the blob."""
    path: str
    """The file path at the time the text was pinned, or of the file that a user's text replaces."""
    user: PersonName | None = None
    """Whose text it is, where a user has replaced the file; None if it is the file."""
    version: int | None = None
    """The version of the user's text; None if it is the file."""
    sealed_in: int | None = None
    """Sequence of the event of the overrides under whose key the text is; None if it is not sealed.
    """


class SegmentSource(EventModel):
    """The text is a library segment in the version that this call used."""

    segment: int
    """The segment's number within its tenant."""
    version: int
    """The version number of the text."""
    digest: Digest
    """Digest of the blob that holds the text."""
    scope: str
    """The requested scope, such as `npc`."""
    ref: str | None = None
    """The requested owner within the scope, such as `npc.innkeeper`; None if it has no owner."""
    locale: str | None = None
    """The locale of the text; None if it applies to all locales."""
    variant: str = "a"
    """The variant that the session was assigned."""
    tier: int = 0
    """How much a reader must have discovered to see it."""
    type: str = ""
    """The kind of text; empty if unspecified."""
    priority: str = "normal"
    """Decides which segments are dropped first."""
    sealed_in: int | None = None
    """Sequence of the event of the segments under whose key the text is; None if it is not sealed.
    """


class EventTextSource(EventModel):
    """The text is a field of an event of this session, or a part beside it is one of its parts."""

    sequence: int
    """The event's sequence."""
    field: str
    """Dotted path in the event: `text`, `attributes.language`, `answer.reasoning`, `parts.0`."""
    reply_of: int | None = None
    """Of reasoning: the earlier turn whose reply came with it and with tool calls. None for all
    else, and for the reasoning of a reply that came alone, which is `answer.reasoning`.
    """


class BlueprintTextSource(EventModel):
    """The text is written in the blueprint itself, with its template variables filled."""

    text: Words
    """The text as it is in the prompt."""
    of: tuple[str, ...] = ()
    """The template variables: `cartridge.safety.intensity_ceiling`, `session.choices`."""


class HistorySource(EventModel):
    """A run of history: the messages of these turns, in order, in one view."""

    view: str
    """The blueprint's name of the view."""
    first: int
    """First turn of the run."""
    last: int
    """Last turn of the run."""
    work: bool = False
    """Whether each reply is preceded by the work that led to it."""
    condensed: CondenseRule | None = None
    """The rule by which the messages are condensed; None if they are verbatim."""
    again: tuple[int, ...] = ()
    """With `duplicates`: indexes (from 0) of the turn's paragraphs that a later turn repeats."""
    later: int | None = None
    """With `duplicates`: the latest turn that repeats one of them."""
    system_as_user: bool = False
    """Whether texts of the system are messages of the user, since the server takes none among the
    turns. The digest is that of the texts with the roles of their turns.
    """


class ResolutionSource(EventModel):
    """Values that a resolver returned for the turn, one per line."""

    resolution: int
    """Sequence of the event that holds them."""
    lines: Annotated[dict[str, str], SEALED]
    """Included value by label: `intent`, `results`."""
    heading: str = ""
    """The heading above the lines."""


class KnowledgeSource(EventModel):
    """The text is an entry of the tenant's knowledge, as a retrieval of the turn took it."""

    retrieved: int
    """Sequence of the event of the retrieval, which has all its figures."""
    collection: str
    """The collection of the entry."""
    entry: str
    """Its id within the collection."""
    revision: int
    """Sequence of the event of the knowledge that gave it this text."""
    digest: Digest
    """Digest of the blob that holds the text."""
    score: float
    """The score it was ranked by."""
    confidence: float
    """Similarity of query and entry, from 0 to 1."""


class ParentInputSource(EventModel):
    """The text is an input of the parent's turn, which the child's turn refers to."""

    handed: int
    """Sequence of the event that submitted the child's turn, with the reference."""
    input: str
    """The name of the input."""
    session: str
    """The parent session."""
    turn: int
    """The turn of the parent that has it."""
    digest: Digest
    """Digest of the blob that holds the text."""


StoredTextSource = BlobSource | SegmentSource | KnowledgeSource | ParentInputSource
"""Sources whose text is a blob, and which hold its digest."""

PartSource = Annotated[
    Annotated[BlobSource, Tag("(path)")]
    | Annotated[SegmentSource, Tag("(segment)")]
    | Annotated[EventTextSource, Tag("(field)")]
    | Annotated[BlueprintTextSource, Tag("(text)")]
    | Annotated[HistorySource, Tag("(view)")]
    | Annotated[ResolutionSource, Tag("(resolution)")]
    | Annotated[KnowledgeSource, Tag("(retrieved)")]
    | Annotated[ParentInputSource, Tag("(handed)")],
    Discriminator(
        build_discriminator(
            *("path", "segment", "field", "text", "view", "resolution", "retrieved", "handed")
        )
    ),
]


class TextExcerpt(EventModel):
    """A range of a text that other layers interrupt."""

    begin: int
    """Start, in code points."""
    end: int
    """End, in code points."""


class TextTruncation(EventModel):
    """The remaining beginning of a text that was too long."""

    of: int
    """Original length in code points."""
    to: int
    """Remaining length in code points."""


class ArgumentLimits(EventModel):
    """How the arguments of a tool call were condensed."""

    rule: Literal["arguments-1"] = "arguments-1"
    """The rule; its result for the same arguments and limits never changes."""
    characters: int
    """Characters left of a longer text in them; 0 if only its length is."""
    items: int
    """Items left of a longer list."""


class LeftOutPart(EventModel):
    """A picture, recording or file in whose place a line stands, listed with others."""

    message: int
    """Index of its message."""
    at: int = 0
    """Where the line stands among the texts of the message, in code points."""
    sequence: int
    """Sequence of the event that names it."""
    field: str = "parts.0"
    """Dotted path in that event."""
    tokens: int
    """Tokens of the line."""


class PromptPart(EventModel):
    """A layer, one segment of it, or a run of history, as one call includes it.

    A message is the concatenation of `before`, the text and `after` of its parts. A run of history
    whose `message` has begun before joins its first text to that message.
    """

    layer: str
    """The blueprint's name of the layer; `history` and `input` are built in."""
    component: str
    """The component under which its tokens are counted."""
    item: Words | None = None
    """The list item it belongs to, if the layer has one piece per item."""
    source: PartSource | None = None
    """The source of the text; None if there was none."""
    before: Words = ""
    """Text before it: a separator, a delimiter, a heading."""
    after: Words = ""
    """Text after it: the closing delimiter of its layer."""
    excerpt: TextExcerpt | None = None
    """The range of the source text that is used; None if all of it is."""
    cut: TextTruncation | None = None
    """How the text was truncated."""
    condensed_to: ArgumentLimits | None = None
    """How the arguments of a tool call were condensed; None if they were not."""
    indented: tuple[int, ...] = ()
    """Positions in the remaining text (code points) where a space was inserted before a line that
    looks like a delimiter.
    """
    message: int | None = None
    """Index of the (first) message that includes it; None if it was left out."""
    at: int | None = None
    """Of a picture, recording or file: where it stands among the texts of its message, in code
    points. None for a text.
    """
    others: tuple[LeftOutPart, ...] = ()
    """Media after this one that were left out by the same rule. Its tokens, its characters and
    what it saved are those of all of them together.
    """
    role: PartRole | None = None
    """Role of that message; roles alternate in a run of history. `tools` is a tool offered beside
    the messages, and `tool_call` a tool call in an assistant's message: its text is the arguments,
    and the event of its source has the id and the tool. `reasoning` is what the model reasoned, or
    the signature of a tool call, as fields of that message or call: its text is the JSON object of
    them. `response_format` is the schema of the answer where the parameter of that name has it,
    and no message.
    """
    digest: WordDigest | None = None
    """Digest of the text, of the bytes of a picture, recording or file, or of a run's message
    digests, one per line. None if the part was left out, or if the source identifies the exact text
    (a blob by digest, a blueprint literally).
    """
    name: str | None = None
    """The name that the server is sent of a tool in place of the tool's own, which it does not
    take; None for its own. Answers have this name, and the events of their calls the own one.
    """
    characters: int = 0
    """Length in the prompt in code points, including `before` and `after`."""
    tokens: int = 0
    """Its share of the message's tokens, by the manifest's counter."""
    saved: int = 0
    """Tokens that condensing, summarising or excluding saved; estimated from lengths for texts that
    were not read.
    """
    treatment: PartTreatment = "kept"
    """What was done to it."""
    rule: str | None = None
    """The condition or ladder step that caused the treatment."""

    @property
    def is_included(self) -> bool:
        """Whether the prompt includes it."""
        return self.role is not None

    @property
    def is_reply_reasoning(self) -> bool:
        """Whether it is what a model reasoned before a reply, whose message is in a run of history.

        It comes after the run, and not in the order of the messages.
        """
        source = self.source
        if not isinstance(source, EventTextSource):
            return False
        return source.field == REPLY_REASONING_FIELD or source.reply_of is not None


class CounterRef(EventModel):
    """The token counter that was used."""

    name: str
    """The counter's name, for example `chars/4`."""
    exact: bool
    """Whether it counts exactly as the model does."""
    factor: float = 1.0
    """What each count is multiplied by, since the provider counted so many times as many tokens in
    an earlier call of the session; 1 where it did not, as in old logs.
    """
    measured_in: str | None = None
    """That earlier call; None if the factor is 1."""


class CachePrefix(EventModel):
    """How far the prompt repeats the earlier one of its kind, so that a cache can reuse it."""

    call: str
    """The id of the earlier call."""
    messages: int
    """Number of messages that begin the same."""
    tokens: int
    """Tokens of the earlier call's parts before the first difference."""
    ended_by: str | None = None
    """The first layer that differs; None if the whole earlier prompt is repeated."""


class AppliedTrimStep(EventModel):
    """A ladder step that shortened the prompt; recorded each time it changed something."""

    step: str
    """The blueprint's name of the step: `trim`. Two are taken without a word of it:
    `drop_reasoning`, and `leave_out_tool`, where all others do not suffice.
    """
    on: str
    """The layer or history view it was applied to, or the tool that was left out."""
    section: str | None = None
    """The section whose limit required it; None if another limit did."""
    component: str | None = None
    """The component whose limit required it; None if the limit of a section or the prompt did."""
    before: int
    """Tokens of the section, component or prompt before the step."""
    after: int
    """Tokens after the step."""
    limit: int | None = None
    """The limit that the step answers for, if it makes a lasting cut (`to`): what it left out stays
    left out of later calls of the kind until one exceeds this limit. None if it makes none.
    """
    through: int | None = None
    """The last turn from which a lasting cut left something out."""
    since: str | None = None
    """The earlier call whose lasting cut this call keeps; None if the call itself made the cut."""


RoleOrder = Literal["anywhere", "system_first", "alternating"]
"""The roles of messages that a server takes.

`anywhere`: any role at any place. `system_first`: one system message, at the beginning.
`alternating`: after it, the user and the assistant in turns, the user first.
"""

ToolReferences = Literal["keep", "inline"]
"""Whether a server takes `$ref` in the schemas of tools; with `inline` they are written out."""


PicturePlace = Literal["result", "user", "none"]
"""Where a server takes the pictures of a tool's result.

`result`: in the message of the result. `user`: in a message of the user after the results. `none`:
in neither, so that the text of the result is sent alone.
"""

CallReasoning = Literal["optional", "required"]
"""Whether a server refuses a message with tool calls that has no `reasoning_content`.

With `required`, one space stands in its place where nothing that was reasoned can be sent back.
"""

CacheMarks = Literal["none", "anthropic"]
"""How a provider is asked to cache the beginning of a prompt; `none` where nothing is asked."""


class ToolNameRule(EventModel):
    """The names of tools that a server takes; what it does not take is replaced in requests."""

    characters: Literal["word", "dashed", "dotted"] = "dashed"
    """`word`: letters and digits of ASCII, and `_`. `dashed`: `-` as well. `dotted`: `.` too."""
    first: Literal["any", "letter"] = "any"
    """Whether the first is any of them, or a letter or `_`."""
    length: int = 64
    """The most characters."""
    names_choice: bool = False
    """Whether the tool that the parameter `tool_choice` names has its name by the rule as well. It
    has in requests that are assembled now; those recorded before kept the name of the blueprint.
    """


class RequestDialect(EventModel):
    """How a request was written for its server."""

    rendering: int
    """Version of the rules by which it was written."""
    roles: RoleOrder = "anywhere"
    """Which roles the server takes at which places."""
    tool_refs: ToolReferences = "keep"
    """Whether it takes references in the schemas of tools."""
    parallel_tool_calls: bool | None = None
    """The parameter of that name in a request with tools; None for a request without it."""
    refused_parameters: tuple[str, ...] = ()
    """Parameters of the call that were left out of the request, since the server refuses them."""
    cache_marks: CacheMarks = "none"
    """How the provider is asked to cache; the manifest names the messages."""
    images: bool = True
    """Whether the model reads pictures; if not, a line stands in the place of each."""
    files: bool = True
    """Whether it reads files such as PDF; if not, a line stands in the place of each."""
    audio: bool = True
    """Whether it reads recordings; if not, a line stands in the place of each."""
    tool_pictures: PicturePlace = "result"
    """The message in which the server takes the pictures of a tool's result."""
    call_reasoning: CallReasoning = "optional"
    """Whether the server refuses tool calls without what was reasoned before them."""
    tool_names: ToolNameRule | None = None
    """The names of tools that it takes; None for those of ASCII's letters, digits, `_` and `-`, at
    most 64, to which the tools of a session are pinned.
    """
    context_tokens: int | None = None
    """Most tokens of a request, where a file of dialects states them: the budget is no larger. None
    where none does.
    """


class SegmentOmission(EventModel):
    """A requested library segment that was not available."""

    scope: str
    """The requested scope."""
    ref: str | None = None
    """The requested owner within the scope."""
    segment: int | None = None
    """The segment's number; None if all segments of the request are missing."""
    reason: str
    """A sentence for the maintainer of the library."""


class Manifest(EventModel):
    """Everything that a call includes, and what was left out."""

    kind: str
    """The blueprint's name of this kind of call."""
    at: str
    """The clock time used for assembly, RFC 3339."""
    sequence: int
    """The session sequence whose state was assembled."""
    assembler: int
    """Version number of the assembler."""
    counter: CounterRef
    """The counter of all token figures in this manifest."""
    budget: int | None = None
    """Token budget; None if the call has none."""
    lowered_by: str | None = None
    """The call whose prompt the provider refused as too long, so that the budget is smaller than
    the blueprint's, or there is one although the call has none; None if it is the blueprint's.
    """
    tokens: int
    """Tokens of all included parts."""
    parts: tuple[PromptPart, ...]
    """Parts in prompt order; a part that was left out is listed at the place it would have had."""
    steps: tuple[AppliedTrimStep, ...] = ()
    """Steps applied to fit the budget, in order."""
    omitted: tuple[SegmentOmission, ...] = ()
    """Segments that the library could not provide."""
    stale: bool = False
    """Whether the library was unreachable and its last known state was used."""
    prefix: CachePrefix | None = None
    """What the prompt has in common with the previous call of its kind; None for the first one."""
    dialect: RequestDialect | None = None
    """How the request was written for its server; None if it is as the blueprint has it."""
    cache_marks: tuple[int, ...] = ()
    """Indexes of the messages up to whose end the provider is asked to cache the prompt."""
    digest: WordDigest
    """Digest of the canonical request; `body_digest` of the event has that of the bytes sent."""
