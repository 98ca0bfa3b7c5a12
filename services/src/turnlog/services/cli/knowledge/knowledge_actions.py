"""Actions on knowledge; each is sent to a running service over HTTP.

An import reads all files first and sends nothing if any has a fault. It sends whole files, some at
a time; the service takes each request whole or not at all, and an import that was interrupted is
completed by the same command.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from turnlog.client import PutEntryRequest, tenant_operations
from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.knowledge_payloads import (
    KnowledgeChangeResult,
)
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.client.row_waiting import send_listed_command, wait_for_rows
from turnlog.services.cli.client.service_client import (
    ServiceClient,
    create_running_client,
    send_command,
)
from turnlog.services.cli.client.service_location import require_service
from turnlog.services.cli.console import (
    OutputFormat,
    create_output_console,
    print_answer,
    print_json,
)
from turnlog.services.cli.knowledge.knowledge_files import FileEntry, read_knowledge_files
from turnlog.services.cli.knowledge.knowledge_pruning import (
    dump_gone_entries,
    list_gone_entries,
    remove_gone_entries,
    render_gone_entries,
)
from turnlog.services.cli.knowledge.knowledge_view import (
    render_hits,
    render_knowledge_change,
)
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.import_faults import print_import_faults

BATCH_ENTRIES: Final = 500
"""Entries of one request of an import, if no single file has more."""

BATCH_BYTES: Final = 2_000_000
"""Bytes of their texts, likewise."""

_READ_STDIN: Final = "-"

_ENTRY_FIELD: Final = re.compile(r"entries\.(\d+)(?:\.(\w+))?")


async def send_entry(
    target: ServiceTarget,
    collection: str,
    entry: str | None,
    fields: Mapping[str, JsonValue],
    output: OutputFormat,
) -> None:
    """Add or edit an entry; without an id it has one that follows from its text."""
    text = str(fields["text"])
    text = sys.stdin.read() if text == _READ_STDIN else text
    name = entry or compute_digest(text).removeprefix("sha256:")[:16]
    form = PutEntryRequest.model_validate({**fields, "text": text})
    command = tenant_operations.put_entry(collection, name, form)
    done = await send_listed_command(target, command, tenant_operations.list_collections)
    print_answer(done, render_knowledge_change(done, name), output)


async def send_removal(
    target: ServiceTarget, collection: str, entries: Sequence[str], output: OutputFormat
) -> None:
    """Remove entries, or the whole collection if none is named."""
    if not entries:
        command = tenant_operations.remove_collection(collection)
        done = await send_listed_command(target, command, tenant_operations.list_collections)
        print_answer(done, render_knowledge_change(done, None), output)
    for entry in entries:
        command = tenant_operations.remove_entry(collection, entry)
        done = await send_listed_command(target, command, tenant_operations.list_collections)
        print_answer(done, render_knowledge_change(done, entry), output)


async def send_search(
    target: ServiceTarget, form: Mapping[str, JsonValue], output: OutputFormat
) -> None:
    """Search collections and print the hits."""
    found = await send_command(target, tenant_operations.search_knowledge(form))
    print_answer(found, render_hits(found), output)


async def import_knowledge(
    target: ServiceTarget,
    collection: str,
    paths: Sequence[Path],
    kind: EntryKind,
    *,
    prune: bool = False,
    output: OutputFormat,
) -> bool:
    """Import all entries of these files and folders; return whether all could be.

    To prune is to remove then what earlier imports gave and these files do not.
    """
    try:
        files = _read_files(paths, kind)
        async with create_running_client(require_service(target)) as service:
            result = await _send_batches(service, collection, list(split_batches(files)))
            if prune:
                result = await _prune_collection(service, files, result)
            await wait_for_rows(service, tenant_operations.list_collections, result.sequence)
    except FaultyBlueprint as faulty:
        print_import_faults(faulty.faults, output)
        return False
    total = sum(len(entries) for entries in files)
    print_answer(result, render_knowledge_change(result, None, total), output)
    return True


async def preview_pruning(
    target: ServiceTarget,
    collection: str,
    paths: Sequence[Path],
    kind: EntryKind,
    *,
    output: OutputFormat,
) -> bool:
    """Print what an import of these files would remove; return whether they can be imported."""
    try:
        files = _read_files(paths, kind)
    except FaultyBlueprint as faulty:
        print_import_faults(faulty.faults, output)
        return False
    async with create_running_client(require_service(target)) as service:
        gone = await list_gone_entries(service, collection, files)
    if output == "json":
        print_json(dump_gone_entries(collection, gone))
    else:
        create_output_console().print(render_gone_entries(collection, gone))
    return True


def _read_files(paths: Sequence[Path], kind: EntryKind) -> list[list[FileEntry]]:
    found = read_knowledge_files(paths, kind)
    if found.faults:
        raise FaultyBlueprint(found.faults)
    return found.files


async def _send_batches(
    service: ServiceClient, collection: str, batches: Sequence[Sequence[FileEntry]]
) -> KnowledgeChangeResult:
    """Import batches; raises `FaultyBlueprint` for an entry that the service refuses."""
    result = KnowledgeChangeResult(collection=collection, added=0, edited=0, removed=0, sequence=0)
    with create_progress_bar() as bar:
        task = bar.add_task("importing", total=sum(len(batch) for batch in batches))
        for batch in batches:
            body = build_import_body(collection, [each.entry for each in batch])
            command = build_command(api_paths.IMPORT_KNOWLEDGE, body, KnowledgeChangeResult)
            try:
                result = _add_results(result, await service.send(command))
            except Refused as refused:
                fault = _locate_fault(refused, batch)
                if fault is None:
                    raise
                raise FaultyBlueprint([fault]) from None
            bar.update(task, advance=len(batch))
    return result


async def _prune_collection(
    service: ServiceClient, files: Sequence[Sequence[FileEntry]], result: KnowledgeChangeResult
) -> KnowledgeChangeResult:
    gone = await list_gone_entries(service, result.collection, files, result.sequence or None)
    sequence = await remove_gone_entries(service, gone)
    removed = KnowledgeChangeResult(
        collection=result.collection, added=0, edited=0, removed=len(gone), sequence=sequence
    )
    return _add_results(result, removed)


def _add_results(
    first: KnowledgeChangeResult, second: KnowledgeChangeResult
) -> KnowledgeChangeResult:
    return KnowledgeChangeResult(
        collection=first.collection,
        added=first.added + second.added,
        edited=first.edited + second.edited,
        removed=first.removed + second.removed,
        sequence=max(first.sequence, second.sequence),
    )


def split_batches(files: Iterable[Sequence[FileEntry]]) -> Iterator[list[FileEntry]]:
    """Yield the entries of whole files, as many files as a request takes."""
    batch: list[FileEntry] = []
    size = 0
    for entries in files:
        length = sum(len(each.entry.text.encode()) for each in entries)
        is_full = len(batch) + len(entries) > BATCH_ENTRIES or size + length > BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, size = [], 0
        batch, size = [*batch, *entries], size + length
    if batch:
        yield batch


def build_import_body(collection: str, entries: Iterable[EntryInput]) -> dict[str, JsonValue]:
    """Return the request that imports entries; it is the service that checks them."""
    return {
        "collection": collection,
        "entries": [asdict(entry) for entry in entries],
        "replace_sources": True,
    }


def _locate_fault(refused: Refused, batch: Sequence[FileEntry]) -> BlueprintFault | None:
    """Return the service's refusal as a fault with file and line, or None if it names no entry."""
    match = _ENTRY_FIELD.match(refused.field or "")
    if match is None or int(match[1]) >= len(batch):
        return None
    return batch[int(match[1])].build_fault(match[2] or "", refused.detail, refused.fix)
