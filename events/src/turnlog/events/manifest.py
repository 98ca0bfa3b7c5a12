"""The manifest: the record of what stood in one call's prompt, part by part, and why.

It names sources and digests, never text: a part points at the event or the blob that holds its
text, so that the prompt can be read back from the log and compared with what was recorded. An
unchanged run of history is one part, however many turns it spans.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from turnlog.events.content import Digest
from turnlog.events.fact import Fact
from turnlog.events.forms import form_by

Role = Literal["system", "user", "assistant"]
Place = Role | Literal["tools"]
Treatment = Literal["kept", "trimmed", "compressed", "dropped", "condensed", "summarised", "absent"]
"""What was done to a part. `dropped` was cut to fit, `absent` had nothing to say."""


Condensed = Literal["repeats-1", "duplicates-1"]
"""A rule that turns are told in short by; what it makes of the same texts never changes."""


class FromBlob(Fact):
    """The text is a blob of the library."""

    digest: Digest
    """Digest of the blob."""
    path: str
    """Where the text was found when it was pinned."""


class FromSegment(Fact):
    """The text is a segment of the library, in the version this call was given."""

    segment: int
    """The segment's number within its tenant."""
    version: int
    """Which of its versions."""
    digest: Digest
    """Digest of the blob that holds the text."""
    scope: str
    """What it was asked for by: `npc`."""
    ref: str | None = None
    """And whose it is: `npc.innkeeper`; none where it is nobody's in particular."""
    locale: str | None = None
    """The locale it is written in; none where that does not matter."""
    variant: str = "a"
    """Which of its variants the session was given."""
    tier: int = 0
    """How much a reader must have found out."""
    type: str = ""
    """What kind of text it is; empty where nobody said."""
    priority: str = "normal"
    """What goes first when there is too much."""


class FromEvent(Fact):
    """The text stands in an event of this session."""

    sequence: int
    """The event's sequence."""
    field: str
    """Where in the event, dotted: `text`, `attributes.language`."""


class FromBlueprint(Fact):
    """The text is written in the blueprint itself, after its slots were filled."""

    text: str
    """The text as it stands in the prompt."""
    of: tuple[str, ...] = ()
    """What was put into it: `cartridge.safety.intensity_ceiling`, `session.choices`."""


class FromTurns(Fact):
    """A run of history: the messages of these turns, in order, under one view."""

    view: str
    """The blueprint's name for the view."""
    first: int
    """First turn of the run."""
    last: int
    """Last turn of the run."""
    work: bool = False
    """Whether each answer has in front of it how the turn was worked out."""
    condensed: Condensed | None = None
    """The rule by which less is said than was; none where they stand word for word."""
    again: tuple[int, ...] = ()
    """Under `duplicates`: the paragraphs of the turn that are said again later, from 0."""
    later: int | None = None
    """Under `duplicates`: the latest turn that says one of them again."""


class FromResolved(Fact):
    """Values that a resolver gave for the turn, a line each."""

    resolution: int
    """Sequence of the event that holds them."""
    lines: dict[str, str]
    """Label to what is told: `intent`, `results`."""
    heading: str = ""
    """What stands above them."""


Source = Annotated[
    Annotated[FromBlob, Tag("(path)")]
    | Annotated[FromSegment, Tag("(segment)")]
    | Annotated[FromEvent, Tag("(field)")]
    | Annotated[FromBlueprint, Tag("(text)")]
    | Annotated[FromTurns, Tag("(view)")]
    | Annotated[FromResolved, Tag("(resolution)")],
    Discriminator(form_by("path", "segment", "field", "text", "view", "resolution")),
]


class Excerpt(Fact):
    """A stretch of a text, where other layers stand in the midst of it."""

    begin: int
    """Where it begins, in code points."""
    end: int
    """Where it ends."""


class Cut(Fact):
    """What is left of a text that was too long: its beginning."""

    of: int
    """Length of the whole text, in code points."""
    to: int
    """Length of what is left."""


class Part(Fact):
    """A layer, one segment of it, or a run of history, as it stands in one call.

    What stands in a message is, part by part, `before`, the text, `after`.
    """

    layer: str
    """The blueprint's name for it; `history` and `input` are the two built-in ones."""
    component: str
    """What its tokens are counted under."""
    item: str | None = None
    """Which item of a list it belongs to, where the layer has a piece for each."""
    source: Source | None = None
    """Where its text comes from; none where it had none."""
    before: str = ""
    """What stands in front of it: what joins it to the part before, a fence, a heading."""
    after: str = ""
    """What stands behind it: the fence that closes its layer."""
    excerpt: Excerpt | None = None
    """Which stretch of its source's text it is; none where it is all of it."""
    cut: Cut | None = None
    """What is left of the text, where it was cut."""
    indented: tuple[int, ...] = ()
    """Where a blank was put before a line that looked like a fence: places in the text that is
    left, in code points."""
    message: int | None = None
    """Index of the (first) message it stands in; none when it was left out."""
    role: Place | None = None
    """Role of that message; a run of history alternates from it. `tools` is a tool offered
    beside the messages."""
    digest: Digest | None = None
    """Digest of the text, or of a run's message digests, one a line. None when it is left out,
    and where the source gives the very text: a blob by its digest, a blueprint literally."""
    characters: int = 0
    """Length as it stands in the prompt, in code points, with what is before and after it."""
    tokens: int = 0
    """Its share of the message's tokens, as counted by the manifest's counter."""
    saved: int = 0
    """Tokens by which it is shorter than what it stands for, where it was condensed."""
    treatment: Treatment = "kept"
    """What was done to it."""
    rule: str | None = None
    """The condition or ladder step that did it."""

    @property
    def kept(self) -> bool:
        """Whether it stands in the prompt at all."""
        return self.role is not None


class Counter(Fact):
    """Who counted the tokens."""

    name: str
    """For example `chars/4`."""
    exact: bool
    """Whether it is the model's own way of counting."""


class Prefix(Fact):
    """How far a prompt is the earlier one of its kind over again, and a cache can reuse it."""

    call: str
    """The earlier call."""
    messages: int
    """Messages that begin as they did then."""
    tokens: int
    """Tokens of the earlier call's parts that stand in front of the first difference."""
    ended_by: str | None = None
    """The layer that differs first; none where all of the earlier prompt stands there again."""


class StepTaken(Fact):
    """A step of a ladder that was taken, as often as it changed something."""

    step: str
    """The blueprint's word for it: `trim`."""
    on: str
    """The layer or the history it was taken on."""
    section: str | None = None
    """The section whose limit asked for it; none where it was another's."""
    component: str | None = None
    """The component whose limit asked for it; none where it was a section's or the whole's."""
    before: int
    """Tokens of the section, the component or the prompt before."""
    after: int
    """The same after."""


class Omission(Fact):
    """Something of the library that was asked for and could not be had."""

    scope: str
    """What was asked for."""
    ref: str | None = None
    """And whose."""
    segment: int | None = None
    """Which segment; none where it is all of them."""
    reason: str
    """A sentence for whoever looks after the library."""


class Manifest(Fact):
    """Everything that stood in a call, and what was left out."""

    kind: str
    """The blueprint's name for this kind of call."""
    at: str
    """Clock reading the call was assembled with, RFC 3339."""
    sequence: int
    """The session's sequence whose state was assembled."""
    assembler: int
    """Version of the assembler."""
    counter: Counter
    """The counter of all token figures in here."""
    budget: int | None = None
    """Tokens allowed, none where the call has no budget."""
    tokens: int
    """Tokens of all parts that stand in the prompt."""
    parts: tuple[Part, ...]
    """In the order of the prompt; parts left out stand where they would have been."""
    steps: tuple[StepTaken, ...] = ()
    """What was done so that it fits, in order."""
    omitted: tuple[Omission, ...] = ()
    """What the library could not give."""
    stale: bool = False
    """Whether the library could not be asked, and gave what it last knew."""
    prefix: Prefix | None = None
    """What it has in common with the call of its kind before it; none for the first one."""
    digest: Digest
    """Digest of the canonical request as it was handed to litellm."""
