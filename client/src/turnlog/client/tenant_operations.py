"""The requests about knowledge, prompt overrides, quotas and usage, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from turnlog.client.operations import ClientOperation, build_command, build_read
from turnlog.client.tenant_answers import (
    CollectionListAnswer,
    EntryAnswer,
    EntryForm,
    EntryListAnswer,
    ImportedEntryForm,
    KnowledgeChangeAnswer,
    KnowledgeSearchAnswer,
    OverrideAnswer,
    OverrideListAnswer,
    OverrideRemovalAnswer,
    QuotaAnswer,
    QuotaListAnswer,
    UsageReportAnswer,
)

_COLLECTIONS: Final = "/v1/knowledge/collections"

_OVERRIDES: Final = "/v1/overrides"


def _format_collection_path(collection: str) -> str:
    return f"{_COLLECTIONS}/{quote(collection, safe='')}"


def _format_entry_path(collection: str, entry: str) -> str:
    return f"{_format_collection_path(collection)}/entries/{quote(entry, safe='')}"


def put_entry(
    collection: str, entry: str, form: EntryForm
) -> ClientOperation[KnowledgeChangeAnswer]:
    """Add an entry of knowledge, or edit it."""
    path = _format_entry_path(collection, entry)
    return build_command(path, form, KnowledgeChangeAnswer, "PUT")


def import_entries(
    collection: str, entries: Sequence[ImportedEntryForm], *, replace_sources: bool
) -> ClientOperation[KnowledgeChangeAnswer]:
    """Add or edit many entries, all or none."""
    body = {
        "collection": collection,
        "entries": list(entries),
        "replace_sources": replace_sources,
    }
    return build_command("/v1/knowledge/import", body, KnowledgeChangeAnswer)


def remove_entry(collection: str, entry: str) -> ClientOperation[KnowledgeChangeAnswer]:
    """Remove an entry."""
    path = _format_entry_path(collection, entry)
    return build_command(path, None, KnowledgeChangeAnswer, "DELETE")


def remove_collection(collection: str) -> ClientOperation[KnowledgeChangeAnswer]:
    """Remove all entries of a collection."""
    path = _format_collection_path(collection)
    return build_command(path, None, KnowledgeChangeAnswer, "DELETE")


def list_collections(min_sequence: int | None) -> ClientOperation[CollectionListAnswer]:
    """List the collections."""
    return build_read(_COLLECTIONS, CollectionListAnswer, {"min_sequence": min_sequence})


def list_entries(
    collection: str, after: str | None, limit: int | None, min_sequence: int | None
) -> ClientOperation[EntryListAnswer]:
    """List the entries of a collection."""
    query = {"after": after, "limit": limit, "min_sequence": min_sequence}
    return build_read(_format_collection_path(collection), EntryListAnswer, query)


def fetch_entry(
    collection: str, entry: str, min_sequence: int | None
) -> ClientOperation[EntryAnswer]:
    """Fetch an entry."""
    path = _format_entry_path(collection, entry)
    return build_read(path, EntryAnswer, {"min_sequence": min_sequence})


def search_knowledge(form: Mapping[str, Any]) -> ClientOperation[KnowledgeSearchAnswer]:
    """Search collections; it records nothing, and so has no idempotency key."""
    body = {name: value for name, value in form.items() if value is not None}
    return ClientOperation("POST", "/v1/knowledge/search", KnowledgeSearchAnswer, body)


def set_override(
    user: str, blueprint: str, category: str, form: Mapping[str, str | None]
) -> ClientOperation[OverrideAnswer]:
    """Set a user's own text of a category."""
    path = _format_override_path(user, blueprint, category)
    return build_command(path, form, OverrideAnswer, "PUT")


def fetch_override(
    user: str, blueprint: str, category: str, profile: str | None, provider: str | None
) -> ClientOperation[OverrideAnswer]:
    """Fetch a user's own text for exactly this profile and provider."""
    path = _format_override_path(user, blueprint, category)
    return build_read(path, OverrideAnswer, {"profile": profile, "provider": provider})


def remove_override(
    user: str, blueprint: str, category: str, profile: str | None, provider: str | None
) -> ClientOperation[OverrideRemovalAnswer]:
    """Remove a user's own text."""
    path = _format_override_path(user, blueprint, category)
    place = {"profile": profile, "provider": provider}
    return build_command(path, None, OverrideRemovalAnswer, "DELETE", place)


def list_overrides(user: str | None, blueprint: str | None) -> ClientOperation[OverrideListAnswer]:
    """List the own texts of a user."""
    return build_read(_OVERRIDES, OverrideListAnswer, {"user": user, "blueprint": blueprint})


def _format_override_path(user: str, blueprint: str, category: str) -> str:
    return "/".join((_OVERRIDES, *(quote(each, safe="") for each in (blueprint, category, user))))


def set_quota(user: str, limits: Mapping[str, int | None]) -> ClientOperation[QuotaAnswer]:
    """Set all limits of a user."""
    return build_command(_format_quota_path(user), limits, QuotaAnswer, "PUT")


def fetch_quota(user: str) -> ClientOperation[QuotaAnswer]:
    """Fetch what is left of a user's limits."""
    return build_read(_format_quota_path(user), QuotaAnswer)


def list_quotas() -> ClientOperation[QuotaListAnswer]:
    """List the users who have a limit."""
    return build_read("/v1/quotas", QuotaListAnswer)


def _format_quota_path(user: str) -> str:
    return f"/v1/quotas/{quote(user, safe='')}"


def fetch_usage(query: Mapping[str, str | None]) -> ClientOperation[UsageReportAnswer]:
    """Fetch what turns used."""
    return build_read("/v1/usage", UsageReportAnswer, query)
