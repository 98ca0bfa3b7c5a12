"""Heard: what was said in a session, read from its events when a prompt comes to it.

Whoever holds a whole session need not be told beforehand which texts a prompt takes. Each is read
once, since the next prompt says most of them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from turnlog.events.content import Plain
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.projections.session.state import Said


@dataclass(frozen=True, slots=True, eq=False)
class Heard(Mapping[Said, str]):
    """Texts by where they stand; raises `Corrupt` for one that is not there any more."""

    known: Sequence[Recorded]
    """The events of the session so far, in order and without a gap."""
    _held: dict[Said, str] = field(default_factory=dict[Said, str])

    def __getitem__(self, said: Said) -> str:
        text = self._held.get(said)
        if text is None:
            text = self._held[said] = self._text(said)
        return text

    def __iter__(self) -> Iterator[Said]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def event(self, sequence: int) -> Recorded:
        """Give an event; raises `Corrupt` where there is none."""
        place = sequence - self.known[0].sequence
        if not 0 <= place < len(self.known) or self.known[place].sequence != sequence:
            raise Corrupt(f"event {sequence}", "it is not among the events of the session")
        return self.known[place]

    def _text(self, said: Said) -> str:
        content = getattr(self.event(said.sequence).event, said.field, None)
        if not isinstance(content, Plain):
            raise Corrupt(f"event {said.sequence}", f"its {said.field} cannot be read any more")
        return content.text
