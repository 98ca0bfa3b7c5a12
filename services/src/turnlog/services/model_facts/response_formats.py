"""Which models take the schema of an answer as `response_format`.

litellm's own table says so. It is read from the file that litellm ships, without importing litellm:
the gateway needs it for previews, and litellm's own question (`supports_response_schema`) asks the
network about models of some providers. A model in no table counts as one that does not take it.
The setting `TURNLOG_RESPONSE_FORMAT` comes first, then the dialect of the model, for models that
litellm does not know and for those whose provider refuses what litellm expects of it.

Not everything in the table is believed. litellm imitates the parameter for some providers, by a
tool that the model is forced to call or by an answer that is not streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.projections.structured_output.output_requests import (
    RESPONSE_FORMAT,
    OutputRequest,
    find_obstacle,
    has_output_to_request,
)
from turnlog.services.model_facts.model_dialects import DialectTable, ModelDialects
from turnlog.services.model_facts.model_prices import PriceTable, read_shipped_table
from turnlog.services.platform.concurrency import run_in_thread

RESPONSE_FORMAT_VARIABLE: Final = "TURNLOG_RESPONSE_FORMAT"

_IMITATING_PROVIDERS: Final = frozenset({"bedrock", "bedrock_converse", "databricks", "groq"})
"""Providers for which litellm imitates the parameter."""


@dataclass(frozen=True, slots=True)
class ResponseFormatTable:
    """Which models take `response_format`, by the names that litellm uses."""

    version: str
    """The release of litellm: `litellm 1.106.2`."""
    takers: frozenset[str]
    """Models that take the parameter, with their provider: `openai/gpt-5-mini`."""
    own: Mapping[str, bool]
    """The values of the setting `response_format`."""
    dialects: DialectTable

    def choose_request(self, spec: CallSpec, model: str) -> OutputRequest | None:
        """Return how a new call asks for the form of its answer; None if it asks for none."""
        if not has_output_to_request(spec):
            return None
        if obstacle := find_obstacle(spec):
            return OutputRequest("prompt", obstacle)
        if (stated := self.own.get(model)) is not None:
            return _follow_statement(RESPONSE_FORMAT_VARIABLE, takes=stated)
        if (stated := self.dialects.find_dialect(model).response_format) is not None:
            return _follow_statement("its dialect", takes=stated)
        named = model if "/" in model else f"{parse_provider(model)}/{model}"
        if named in self.takers:
            return OutputRequest(RESPONSE_FORMAT, f"{self.version} says that the model takes it")
        return OutputRequest("prompt", f"{self.version} does not say that the model takes it")


def _follow_statement(source: str, *, takes: bool) -> OutputRequest:
    because = f"{source} says that the model {'takes' if takes else 'does not take'} it"
    return OutputRequest(RESPONSE_FORMAT if takes else "prompt", because)


class ResponseFormats:
    """The table, read when a call first has a schema to ask for."""

    def __init__(
        self, own: Mapping[str, bool] | None = None, dialects: ModelDialects | None = None
    ) -> None:
        self._own = dict(own or {})
        self._dialects = dialects or ModelDialects()
        self._table: ResponseFormatTable | None = None

    async def load_table(self) -> ResponseFormatTable:
        if self._table is None:
            shipped = await run_in_thread(read_shipped_table)
            takers = frozenset(_iterate_takers(shipped))
            version = shipped.version.replace("-", " ", 1)
            self._table = ResponseFormatTable(
                version=version,
                takers=takers,
                own=self._own,
                dialects=await self._dialects.load_table(),
            )
        return self._table

    async def choose_request(self, spec: CallSpec, model: str) -> OutputRequest | None:
        """Return how a new call asks for the form of its answer; None if it asks for none."""
        if not has_output_to_request(spec):
            return None
        return (await self.load_table()).choose_request(spec, model)


def _iterate_takers(table: PriceTable) -> Iterator[str]:
    for name, entry in table.entries.items():
        if entry.get("supports_response_schema") is True and not _is_imitated(name, entry):
            provider = str(entry.get("litellm_provider", "")).removesuffix("-language-models")
            yield name if "/" in name else f"{provider}/{name}"


def _is_imitated(name: str, entry: Mapping[str, object]) -> bool:
    is_native = entry.get("supports_native_structured_output") is True
    return (
        entry.get("mode") != "chat"
        or entry.get("litellm_provider") in _IMITATING_PROVIDERS
        or ("claude" in name and not is_native)
    )
