"""What cannot be made to fit, and what stands in the way: a refusal with its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turnlog.events.errors import Refused
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.plan import HistorySlot, Plan


@dataclass(frozen=True, slots=True)
class LayerSize:
    """What one layer still takes after every step was taken."""

    layer: str
    tokens: int
    always: bool = False
    """Whether it may never be left out."""

    def __str__(self) -> str:
        return f"{self.layer} {self.tokens}{' (always kept)' if self.always else ''}"


class OverBudget(Refused):
    """A prompt, or a section of it, that no step makes short enough."""

    def __init__(
        self, tokens: int, limit: int, sizes: Iterable[LayerSize], section: str | None = None
    ) -> None:
        self.tokens = tokens
        self.limit = limit
        self.sizes = tuple(sizes)
        self.section = section
        what = f"{tokens} tokens of section {section}" if section else f"{tokens} tokens"
        told = ", ".join(str(size) for size in self.sizes)
        more = tokens - limit
        fix = f"shorten the input or raise the budget by {more} tokens"
        super().__init__(
            "over-budget", f"{what} do not fit {limit}: {told}", field="budget", fix=fix
        )

    @property
    def kept(self) -> tuple[LayerSize, ...]:
        """The layers that are always kept, and are in the way."""
        return tuple(size for size in self.sizes if size.always)


def sizes_of(
    plan: Plan, section: str | None, counting: Counting, beside: int
) -> Iterator[LayerSize]:
    """Give the size of everything that still stands, or of one section."""
    for slot in plan:
        if isinstance(slot, HistorySlot):
            said = sum(exchange.tokens for exchange in slot.exchanges)
            if said and section is None:
                yield LayerSize("history", said)
            continue
        for block in slot.blocks:
            if block.standing and section in {None, block.layer}:
                yield LayerSize(block.layer, counting.count(block.content), block.keep)
    if beside and section is None:
        yield LayerSize("tools", beside)
