"""The reads that several commands share: a session, its turns and calls, and a blueprint."""

from __future__ import annotations

from urllib.parse import quote

from turnlog.client.operations import ClientOperation, build_read
from turnlog.contract.call_payloads import CallList
from turnlog.services.api.memory_payloads import ReferencesView
from turnlog.services.api.service_payloads import BlueprintSchemas
from turnlog.services.api.session_payloads import SessionView
from turnlog.services.api.turn_payloads import HistoryView


def fetch_session(session: str, at: int | None = None) -> ClientOperation[SessionView]:
    """Fetch a session from its own log, now or as of sequence `at`."""
    return build_read(f"/v1/sessions/{session}", SessionView, {"at": at})


def fetch_history(
    session: str, at: int | None = None, phase: str | None = None
) -> ClientOperation[HistoryView]:
    """Fetch all turns, those up to sequence `at`, or those of a phase."""
    return build_read(f"/v1/sessions/{session}/history", HistoryView, {"at": at, "phase": phase})


def list_calls(session: str) -> ClientOperation[CallList]:
    """Fetch all calls with their usage and cost."""
    return build_read(f"/v1/sessions/{session}/calls", CallList)


def fetch_references(session: str) -> ClientOperation[ReferencesView]:
    """Fetch the last reference."""
    return build_read(f"/v1/sessions/{session}/references", ReferencesView)


def fetch_blueprint(name: str) -> ClientOperation[BlueprintSchemas]:
    """Fetch a blueprint with the schemas of its values."""
    return build_read(f"/v1/blueprints/{quote(name, safe='')}", BlueprintSchemas)
