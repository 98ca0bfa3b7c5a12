from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self, cast

from turnlog.services.worker.model.failures import ModelFailure


class RawStreamCheck:
    """Reads a provider's raw lines while litellm parses them.

    litellm skips a frame that it cannot parse and takes the closing `[DONE]` for a finish reason,
    so half an answer would pass for a whole one. This iterator passes every line on unchanged,
    fails at a frame that is not JSON where litellm would skip it, and records the provider's own
    finish reason. It stores no text.
    """

    def __init__(self, lines: AsyncIterator[object], *, strict: bool) -> None:
        self._lines = lines
        self._strict = strict
        self.finish: str | None = None
        self.openai = False
        """The provider speaks the OpenAI protocol, so a finish reason would have been seen."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        line = await anext(self._lines)
        if isinstance(line, str) and line.startswith("data:") and "[DONE]" not in line:
            self._check_frame(line.removeprefix("data:"))
        return line

    def _check_frame(self, frame: str) -> None:
        try:
            parsed: object = json.loads(frame)
        except ValueError:
            if self._strict:
                raise ModelFailure("malformed", "a frame is not JSON") from None
            return
        if isinstance(parsed, dict):
            self._record_finish(cast("Mapping[str, object]", parsed))

    def _record_finish(self, frame: Mapping[str, object]) -> None:
        self.openai = self.openai or "choices" in frame
        for said in (
            *(choice.get("finish_reason") for choice in _filter_objects(frame.get("choices"))),
            *(candidate.get("finishReason") for candidate in _filter_objects(frame.get("candidates"))),
            *(delta.get("stop_reason") for delta in _filter_objects([frame.get("delta")])),
        ):
            if isinstance(said, str):
                self.finish = said


def _filter_objects(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list):
        return []
    entries = cast("Sequence[object]", value)
    return [cast("Mapping[str, object]", entry) for entry in entries if isinstance(entry, dict)]
