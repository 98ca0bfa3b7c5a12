"""Parts of a prompt whose texts are not fetched yet.

A `DeferredPart` names the texts that it is built from, and gets exactly these when it is built.
What a call needs is therefore read off its plan: a part cannot use a text that it does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.projections.prompt.assembly_inputs import PromptTexts
from turnlog.projections.session.text_refs import TextRef

TextKey = TextRef | Digest
"""A text in an event, or the digest of one in a blob."""

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class DeferredPart(Generic[Part_co]):
    """A part of a prompt that is built once its texts are fetched."""

    keys: tuple[TextKey, ...]
    build: Callable[[Sequence[str]], Part_co]
    """Builds the part from the texts of the keys, in their order."""

    def map(self, change: Callable[[Part_co], Built]) -> DeferredPart[Built]:
        """Return the part with a change that is applied after it is built."""
        return DeferredPart(self.keys, lambda texts: change(self.build(texts)))

    def fill(self, texts: PromptTexts, place: str) -> Part_co:
        """Build the part; raise `Corrupt` if one of its texts was not fetched."""
        return self.build([_get_text(texts, key, place) for key in self.keys])


def _get_text(texts: PromptTexts, key: TextKey, place: str) -> str:
    text = texts.blobs.get(key) if isinstance(key, str) else texts.by_ref.get(key)
    if text is None:
        raise Corrupt(place, f"the text of {key} was not fetched")
    return text


def build_filled(part: Part) -> DeferredPart[Part]:
    """Return a part that needs no text."""
    return DeferredPart((), lambda _: part)


def combine_parts(parts: Iterable[DeferredPart[Part]]) -> DeferredPart[tuple[Part, ...]]:
    """Return several parts as one, each of which gets the texts that it names itself."""
    listed = tuple(parts)

    def build(texts: Sequence[str]) -> tuple[Part, ...]:
        built, start = list[Part](), 0
        for part in listed:
            end = start + len(part.keys)
            built.append(part.build(texts[start:end]))
            start = end
        return tuple(built)

    return DeferredPart(tuple(key for part in listed for key in part.keys), build)
