"""What the server of a model takes, looked up by the name of the model.

There are three tables: the file of an installation, the one that is shipped, and what litellm's
table knows. The first that has a field decides it. Within a table, of the patterns that match a
name, the longest decides, field by field. A model in no table has a dialect that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from turnlog.events.model.manifest import RequestDialect
from turnlog.services.model_facts.dialects_file import (
    DialectsByPattern,
    ModelDialect,
    load_dialects_file,
)
from turnlog.services.model_facts.model_prices import (
    PriceTable,
    find_model_entry,
    read_shipped_table,
)
from turnlog.services.platform.concurrency import run_in_thread

_SHIPPED_FILE: Final = Path(__file__).with_name("shipped_dialects.yaml")

_MEDIA_WORDS: Final = {
    "images": "supports_vision",
    "files": "supports_pdf_input",
    "audio": "supports_audio_input",
}
"""Fields of a dialect, with litellm's words for them."""


@dataclass(frozen=True, slots=True)
class DialectTable:
    """The dialects of models by their names."""

    own: DialectsByPattern
    shipped: DialectsByPattern
    litellm: PriceTable
    _found: dict[str, ModelDialect] = field(
        default_factory=dict[str, ModelDialect], init=False, repr=False, compare=False
    )
    """The dialects of the models that were looked up, of which an installation has few. Each call
    of a turn needs one: without this they were 0.4 % of a turn's processor time.
    """
    _found_for_requests: dict[str, RequestDialect] = field(
        default_factory=dict[str, RequestDialect], init=False, repr=False, compare=False
    )
    """What of them changes requests; without this each call took 0.06 ms longer."""

    def find_dialect(self, model: str) -> ModelDialect:
        """Return the dialect of a model."""
        found = self._found.get(model)
        if found is None:
            known = _read_litellm_fields(model, self.litellm)
            found = ModelDialect.model_validate({**known, **self._match_files(model)})
            self._found[model] = found
        return found

    def find_request_dialect(self, model: str) -> RequestDialect:
        """Return what of a model's dialect changes a request.

        Its size does only where a file states it: our counts are estimates, and litellm's table
        would shorten prompts that the provider takes.
        """
        found = self._found_for_requests.get(model)
        if found is None:
            stated = self._match_files(model).get("context_tokens")
            found = self.find_dialect(model).build_request_dialect(stated)
            self._found_for_requests[model] = found
        return found

    def _match_files(self, model: str) -> dict[str, Any]:
        return {**_match_fields(model, self.shipped), **_match_fields(model, self.own)}


class ModelDialects:
    """The table, read when it is first needed.

    Raises `FaultyDialectsFile` when the installation's own file cannot be used.
    """

    def __init__(self, own_file: Path | None = None) -> None:
        self._own = load_dialects_file(own_file) if own_file else {}
        self._table: DialectTable | None = None

    async def load_table(self) -> DialectTable:
        if self._table is None:
            shipped, litellm = await run_in_thread(_read_shipped_tables)
            self._table = DialectTable(self._own, shipped, litellm)
        return self._table

    async def find_dialect(self, model: str) -> ModelDialect:
        """Return the dialect of a model."""
        return (await self.load_table()).find_dialect(model)

    async def find_request_dialect(self, model: str) -> RequestDialect:
        """Return what of a model's dialect changes a request."""
        return (await self.load_table()).find_request_dialect(model)


@cache
def _read_shipped_tables() -> tuple[DialectsByPattern, PriceTable]:
    return load_dialects_file(_SHIPPED_FILE), read_shipped_table()


def _match_fields(model: str, dialects: DialectsByPattern) -> dict[str, Any]:
    name, fields = model.lower(), dict[str, Any]()
    for pattern in sorted(dialects, key=len):
        if fnmatchcase(name, pattern.lower()):
            fields |= dialects[pattern].model_dump(exclude_unset=True)
    return fields


def _read_litellm_fields(model: str, table: PriceTable) -> Mapping[str, Any]:
    return dict(_iterate_litellm_fields(find_model_entry(model, table) or {}))


def _iterate_litellm_fields(entry: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    size = entry.get("max_input_tokens")
    if isinstance(size, int) and size > 0:
        yield "context_tokens", size
    for name, word in _MEDIA_WORDS.items():
        if isinstance(entry.get(word), bool):
            yield name, entry[word]
