"""The requests that are about no session, as values.

They are about approvals, files, knowledge, prompt overrides, quotas, usage and uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import httpx

from turnlog.client.operations import ClientOperation, build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.erasures.erasure_payloads import UserErasure
from turnlog.contract.erasures.source_erasure_payloads import SourceErasure, SourceErasureList
from turnlog.contract.installation.read_payloads import ReadPage
from turnlog.contract.knowledge_payloads import (
    CollectionList,
    EntryPage,
    EntryRow,
    ImportedEntry,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
    PutEntryRequest,
)
from turnlog.contract.override_payloads import (
    OverridePage,
    OverrideRemovalResult,
    OverrideTextView,
)
from turnlog.contract.turn_payloads import ApprovalPage, StoredBlobView
from turnlog.contract.usage_payloads import MediaLimitView, QuotaPage, QuotaView, UsageReport
from turnlog.contract.use_payloads import UsePage

UNSPECIFIED_TYPE: Final = "application/octet-stream"
"""The media type of bytes whose type the service finds out."""


def read_content(data: bytes | Path) -> bytes:
    """Return bytes, or those of a file."""
    return data if isinstance(data, bytes) else data.read_bytes()


def compute_digest(content: bytes) -> str:
    """Return the digest under which the service stores bytes."""
    return f"sha256:{sha256(content).hexdigest()}"


def upload_blob(content: bytes, media_type: str) -> ClientOperation[StoredBlobView]:
    """Upload a picture, a recording or a file; the same bytes are stored once."""
    return BlobUpload(content, media_type).build_rest(0)


UPLOAD_OFFSET: Final = "Upload-Offset"
"""The header with the bytes of an upload that the service has already."""

OFFSET_CONFLICT: Final = 409
"""The status where the service has not the bytes that an upload was to go on from."""


@dataclass(frozen=True, slots=True)
class BlobUpload:
    """Bytes to be stored, of which the service may have the beginning from a broken upload."""

    content: bytes
    media_type: str
    digest: str = field(init=False)
    """The digest under which the service stores them, computed once: they may be megabytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", compute_digest(self.content))

    def build_rest(self, offset: int) -> ClientOperation[StoredBlobView]:
        """Return the upload of the bytes from an offset on; of all of them from 0 on."""
        headers = {"Content-Type": self.media_type}
        return ClientOperation(
            method="POST",
            path=api_paths.BLOBS,
            answer=StoredBlobView,
            content=self.content[offset:],
            query={"digest": self.digest},
            headers={**headers, UPLOAD_OFFSET: str(offset)} if offset else headers,
        )

    def read_offset(self, headers: httpx.Headers) -> int:
        """Return how many bytes the service says that it has; 0 for what cannot be."""
        stated = headers.get(UPLOAD_OFFSET, "")
        offset = int(stated) if stated.isdecimal() else 0
        return offset if offset < len(self.content) else 0


def build_blob_request(digest: str, method: str) -> ClientOperation[bytes]:
    """Return the request for the bytes of a digest (`GET`), or for their headers (`HEAD`)."""
    path = format_path(api_paths.BLOB, digest=digest)
    return ClientOperation(method=method, path=path, answer=bytes)


def parse_blob_headers(digest: str, headers: httpx.Headers) -> StoredBlobView:
    """Return what the headers of such an answer say of the bytes."""
    return StoredBlobView(
        digest=digest,
        size=int(headers["Content-Length"]),
        media_type=headers["Content-Type"].partition(";")[0],
    )


def put_entry(
    collection: str, entry: str, form: PutEntryRequest
) -> ClientOperation[KnowledgeChangeResult]:
    """Add an entry of knowledge, or edit it."""
    path = format_path(api_paths.ENTRY, collection=collection, entry=entry)
    body = form.model_dump(mode="json", exclude_unset=True)
    return build_command(path, body, KnowledgeChangeResult, "PUT")


def import_entries(
    collection: str, entries: Sequence[ImportedEntry], *, replace_sources: bool
) -> ClientOperation[KnowledgeChangeResult]:
    """Add or edit many entries, all or none."""
    body = {
        "collection": collection,
        "entries": [each.model_dump(mode="json", exclude_unset=True) for each in entries],
        "replace_sources": replace_sources,
    }
    return build_command(api_paths.IMPORT_KNOWLEDGE, body, KnowledgeChangeResult)


def remove_entry(collection: str, entry: str) -> ClientOperation[KnowledgeChangeResult]:
    """Remove an entry."""
    path = format_path(api_paths.ENTRY, collection=collection, entry=entry)
    return build_command(path, None, KnowledgeChangeResult, "DELETE")


def remove_collection(collection: str) -> ClientOperation[KnowledgeChangeResult]:
    """Remove all entries of a collection."""
    path = format_path(api_paths.COLLECTION, collection=collection)
    return build_command(path, None, KnowledgeChangeResult, "DELETE")


def list_collections(min_sequence: int | None) -> ClientOperation[CollectionList]:
    """List the collections."""
    return build_read(api_paths.COLLECTIONS, CollectionList, {"min_sequence": min_sequence})


def list_entries(
    collection: str, after: str | None, limit: int | None, min_sequence: int | None
) -> ClientOperation[EntryPage]:
    """List the entries of a collection."""
    query = {"after": after, "limit": limit, "min_sequence": min_sequence}
    return build_read(format_path(api_paths.COLLECTION, collection=collection), EntryPage, query)


def fetch_entry(collection: str, entry: str, min_sequence: int | None) -> ClientOperation[EntryRow]:
    """Fetch an entry."""
    path = format_path(api_paths.ENTRY, collection=collection, entry=entry)
    return build_read(path, EntryRow, {"min_sequence": min_sequence})


def search_knowledge(form: Mapping[str, Any]) -> ClientOperation[KnowledgeSearchResult]:
    """Search collections; it records nothing, and so has no idempotency key."""
    body = {name: value for name, value in form.items() if value is not None}
    return ClientOperation(
        method="POST", path=api_paths.SEARCH_KNOWLEDGE, answer=KnowledgeSearchResult, body=body
    )


def set_override(
    user: str, blueprint: str, category: str, form: Mapping[str, str | None]
) -> ClientOperation[OverrideTextView]:
    """Set a user's own text of a category."""
    path = format_path(api_paths.OVERRIDE, blueprint=blueprint, category=category, user=user)
    return build_command(path, form, OverrideTextView, "PUT")


def fetch_override(
    user: str, blueprint: str, category: str, profile: str | None, provider: str | None
) -> ClientOperation[OverrideTextView]:
    """Fetch a user's own text for exactly this profile and provider."""
    path = format_path(api_paths.OVERRIDE, blueprint=blueprint, category=category, user=user)
    return build_read(path, OverrideTextView, {"profile": profile, "provider": provider})


def remove_override(
    user: str, blueprint: str, category: str, profile: str | None, provider: str | None
) -> ClientOperation[OverrideRemovalResult]:
    """Remove a user's own text."""
    path = format_path(api_paths.OVERRIDE, blueprint=blueprint, category=category, user=user)
    place = {"profile": profile, "provider": provider}
    return build_command(
        path=path, body=None, answer=OverrideRemovalResult, method="DELETE", query=place
    )


def list_overrides(user: str | None, blueprint: str | None) -> ClientOperation[OverridePage]:
    """List the own texts of a user."""
    return build_read(api_paths.OVERRIDES, OverridePage, {"user": user, "blueprint": blueprint})


def set_quota(user: str, limits: Mapping[str, int | None]) -> ClientOperation[QuotaView]:
    """Set all limits of a user."""
    return build_command(format_path(api_paths.QUOTA, user=user), limits, QuotaView, "PUT")


def fetch_quota(user: str) -> ClientOperation[QuotaView]:
    """Fetch what is left of a user's limits."""
    return build_read(format_path(api_paths.QUOTA, user=user), QuotaView)


def set_media_limit(limit: int | None) -> ClientOperation[MediaLimitView]:
    """Set how many bytes the media of the tenant may have together; None is unlimited."""
    return build_command(api_paths.MEDIA_LIMIT, {"limit": limit}, MediaLimitView, "PUT")


def fetch_media_limit() -> ClientOperation[MediaLimitView]:
    """Return what the tenant may store, and what it has stored."""
    return build_read(api_paths.MEDIA_LIMIT, MediaLimitView)


def list_quotas() -> ClientOperation[QuotaPage]:
    """List the users who have a limit."""
    return build_read(api_paths.QUOTAS, QuotaPage)


def list_reads(query: Mapping[str, object]) -> ClientOperation[ReadPage]:
    """List who looked at prompts, withheld texts, bundles and exports."""
    return build_read(api_paths.READS, ReadPage, query)


def fetch_usage(query: Mapping[str, object]) -> ClientOperation[UsageReport]:
    """Fetch what turns used."""
    return build_read(api_paths.USAGE, UsageReport, query)


def list_uses(
    source: str,
    *,
    session: str | None,
    replies: bool,
    after: str | None,
    limit: int | None = None,
) -> ClientOperation[UsePage]:
    """List the calls that had a source in their prompt."""
    query = {
        "source": source,
        "session": session,
        "replies": "true" if replies else None,
        "after": after,
        "limit": limit,
    }
    return build_read(api_paths.USES, UsePage, query)


def list_approvals(query: Mapping[str, str | int | None]) -> ClientOperation[ApprovalPage]:
    """List the tools of all sessions that wait for a person, or that were decided."""
    return build_read(api_paths.APPROVALS, ApprovalPage, query)


def erase_user(
    user: str, reason: str, *, with_replies: bool = False, dry_run: bool = False
) -> ClientOperation[UserErasure]:
    """Erase all sessions of a user, and the turns that the user asked in sessions of others."""
    body = {"user": user, "reason": reason, "with_replies": with_replies, "dry_run": dry_run}
    return build_command(api_paths.USER_ERASURES, body, UserErasure)


def erase_source(
    source: str, reason: str, *, dry_run: bool = False
) -> ClientOperation[SourceErasure]:
    """Erase texts of the library: `document:COLLECTION/ENTRY`, `segment:NUMBER@VERSION`."""
    body = {"source": source, "reason": reason, "dry_run": dry_run}
    return build_command(api_paths.SOURCE_ERASURES, body, SourceErasure)


def list_source_erasures() -> ClientOperation[SourceErasureList]:
    """List the receipts of what was erased of the library."""
    return build_read(api_paths.SOURCE_ERASURES, SourceErasureList)
