"""What a prompt was made from, as the index of uses has it: one entry per included source.

An entry repeats what the manifest says of a part, in a form that a database can search. Parts that
were left out have none, and a text that was cut has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never

from turnlog.events.content import Digest, compute_digest
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    Manifest,
    ParentInputSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)

PromptSourceKind = Literal["file", "segment", "document", "event", "turn", "literal", "label"]
"""What a prompt can include: a stored file, a segment, an entry of knowledge, a text of an event, a
run of history, a text of the blueprint, and a labelled line of a resolver.
"""

LONGEST_NAME: Final = 200
"""The longest name in characters that an index of a database is given as it is."""

WORK: Final = "work"
"""The name of a run of history that shows how its turns were worked out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSource:
    """A source that the prompt of a call includes."""

    kind: PromptSourceKind
    name: str = ""
    """Digest of a file, number of a segment, `COLLECTION/ENTRY`, field of an event, path of a value
    that was filled in, or label; `work` for history with work.
    """
    first: int = 0
    """Version of a segment, revision of an entry, sequence of an event, or first turn of a run."""
    last: int = 0
    """The same, or the last turn of a run."""
    digest: Digest | None = None
    """Digest of a stored text; None for other texts."""

    @property
    def lookup(self) -> str | None:
        """Kind and name of a source that belongs to no session; None for the others."""
        is_shared = self.kind in {"segment", "document", "label"}
        return f"{self.kind}:{self.name}" if is_shared else None


def list_prompt_sources(manifest: Manifest) -> tuple[PromptSource, ...]:
    """Return the sources of all included parts, each once."""
    included = (part for part in manifest.parts if part.is_included)
    return tuple(dict.fromkeys(source for part in included for source in _list_part_sources(part)))


def _list_part_sources(part: PromptPart) -> Iterator[PromptSource]:
    match part.source:
        case None:
            return
        case BlobSource(digest=digest):
            yield PromptSource(kind="file", name=digest, digest=digest)
        case SegmentSource(segment=number, version=version, digest=digest):
            yield _build_version("segment", str(number), version, digest)
        case KnowledgeSource(collection=collection, entry=entry, revision=revision, digest=digest):
            yield _build_version("document", build_entry_name(collection, entry), revision, digest)
        case EventTextSource(sequence=sequence, field=field):
            yield _build_event_text(sequence, field)
        case ParentInputSource(handed=sequence, input=name, digest=digest):
            yield replace(_build_event_text(sequence, f"parent_inputs.{name}"), digest=digest)
        case ResolutionSource(resolution=sequence, lines=lines):
            yield _build_event_text(sequence, "results")
            for label in lines:
                yield PromptSource(kind="label", name=shorten_name(label))
        case HistorySource(first=first, last=last, work=work):
            yield PromptSource(kind="turn", name=WORK if work else "", first=first, last=last)
        case BlueprintTextSource(of=paths):
            for path in paths or ("",):
                yield PromptSource(kind="literal", name=shorten_name(path))
        case _ as never:
            assert_never(never)


def _build_version(
    kind: Literal["segment", "document"], name: str, version: int, digest: Digest
) -> PromptSource:
    return PromptSource(kind=kind, name=name, first=version, last=version, digest=digest)


def _build_event_text(sequence: int, field: str) -> PromptSource:
    return PromptSource(kind="event", name=shorten_name(field), first=sequence, last=sequence)


def build_entry_name(collection: str, entry: str) -> str:
    """Return the name of an entry of knowledge within its tenant."""
    return shorten_name(f"{collection}/{entry}")


def shorten_name(name: str) -> str:
    """Return a name, or its digest where it is too long for the index of a database."""
    return name if len(name) <= LONGEST_NAME else compute_digest(name)
