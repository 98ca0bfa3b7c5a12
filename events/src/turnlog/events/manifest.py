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


class FromBlob(Fact):
    """The text is a blob of the library."""

    digest: Digest
    """Digest of the blob."""
    path: str
    """Where the text was found when it was pinned."""


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
    | Annotated[FromEvent, Tag("(field)")]
    | Annotated[FromBlueprint, Tag("(text)")]
    | Annotated[FromTurns, Tag("(view)")]
    | Annotated[FromResolved, Tag("(resolution)")],
    Discriminator(form_by("path", "field", "text", "view", "resolution")),
]


class Part(Fact):
    """A layer, or a run of history, as it stands in one call."""

    layer: str
    """The blueprint's name for it; `history` and `input` are the two built-in ones."""
    component: str
    """What its tokens are counted under."""
    source: Source | None = None
    """Where its text comes from; none where it had none."""
    message: int | None = None
    """Index of the (first) message it stands in; none when it was left out."""
    role: Place | None = None
    """Role of that message; a run of history alternates from it. `tools` is a tool offered
    beside the messages."""
    digest: Digest | None = None
    """Digest of the text, or of a run's message digests, one a line. None when it is left out,
    and where the source gives the very text: a blob by its digest, a blueprint literally."""
    characters: int = 0
    """Length as it stands in the prompt, in code points."""
    tokens: int = 0
    """The same as counted by the manifest's counter."""
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
    between: str
    """What joins the parts of one message."""
    budget: int | None = None
    """Tokens allowed, none where the call has no budget."""
    tokens: int
    """Tokens of all parts that stand in the prompt."""
    parts: tuple[Part, ...]
    """In the order of the prompt; parts left out stand where they would have been."""
    digest: Digest
    """Digest of the canonical request as it was handed to litellm."""
