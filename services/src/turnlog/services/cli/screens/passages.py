"""A prompt taken apart again: which stretch of which message each part accounts for.

The manifest names the parts in order and says how long each is, so the texts of a prompt can be
attributed without asking where they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromTurns, Manifest, Part, Role
from turnlog.projections.window.request import ChatMessage


@dataclass(frozen=True, slots=True)
class Passage:
    """What one part says in one message."""

    part: Part
    message: int
    role: Role
    text: str
    """All that the part adds to the message."""

    @property
    def drawn(self) -> str:
        """The same without the blank line that joins it to the part before."""
        before = self.part.before
        return self.text[len(before) - len(before.lstrip("\n")) :]


def passages(messages: Sequence[ChatMessage], manifest: Manifest) -> tuple[Passage, ...]:
    """Attribute all text of a prompt; raises `Corrupt` where the manifest does not add up."""
    found = tuple(_passages(messages, manifest))
    told = sum(part.characters for part in manifest.parts if part.message is not None)
    if sum(len(passage.text) for passage in found) != told:
        raise Corrupt("manifest", "its parts are not as long as the prompt's messages")
    return found


def _passages(messages: Sequence[ChatMessage], manifest: Manifest) -> Iterator[Passage]:
    standing = [part for part in manifest.parts if part.message is not None]
    ends = [part.message for part in standing[1:]] + [len(messages)]
    begins = 0
    for part, end in zip(standing, ends, strict=False):  # of no parts there is no end either
        first = part.message or 0
        if isinstance(part.source, FromTurns):
            for place in range(first, end or 0):
                yield Passage(part, place, messages[place].role, messages[place].content)
            continue
        text = messages[first].content[begins : begins + part.characters]
        begins = begins + part.characters if end == first else 0
        yield Passage(part, first, messages[first].role, text)
