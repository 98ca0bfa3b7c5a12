"""An answer that does not say itself which sequence of a session it reflects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

AnswerT_co = TypeVar("AnswerT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class SequencedAnswer(Generic[AnswerT_co]):
    """An answer with the sequence of the session that it reflects."""

    answer: AnswerT_co
    sequence: int
