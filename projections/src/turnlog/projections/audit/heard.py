"""Rebuilds the inputs of `assemble` for every recorded call of a session.

`SessionReplay` folds a session from its first event. Just before each event that fixed a prompt,
the state is the one that the prompt was assembled from; later redactions, exclusions and erasures
have no effect on it. The module is independent of the services' loader of prompt inputs on purpose:
it is the second way to a prompt. It compares no digests; the caller who assembles the prompt does.
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
    """The texts of a session by the event field they are stored in, each read once.

    Raises `Corrupt` for a text that is no longer there.
    """

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
        """Return an event by its sequence; raise `Corrupt` if there is none."""
        place = sequence - self.known[0].sequence
        if not 0 <= place < len(self.known) or self.known[place].sequence != sequence:
            raise Corrupt(f"event {sequence}", "it is not among the events of the session")
        return self.known[place]

    def _text(self, said: Said) -> str:
        content = getattr(self.event(said.sequence).event, said.field, None)
        if not isinstance(content, Plain):
            raise Corrupt(f"event {said.sequence}", f"its {said.field} cannot be read any more")
        return content.text
