"""The reads that several commands share: a session, its turns and calls, and a blueprint."""

from __future__ import annotations

from turnlog.client.operations import ClientOperation, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.call_payloads import CallList
from turnlog.contract.memory_payloads import ReferencesView
from turnlog.contract.session_payloads import SessionView
from turnlog.contract.turn_payloads import HistoryView
from turnlog.services.api.service_payloads import BlueprintSchemas


def fetch_session(session: str, at: int | None = None) -> ClientOperation[SessionView]:
    """Fetch a session from its own log, now or as of sequence `at`."""
    return build_read(format_path(api_paths.SESSION, session=session), SessionView, {"at": at})


def fetch_history(
    session: str, at: int | None = None, phase: str | None = None
) -> ClientOperation[HistoryView]:
    """Fetch all turns, those up to sequence `at`, or those of a phase."""
    return build_read(
        format_path(api_paths.HISTORY, session=session),
        HistoryView,
        {"at": at, "phase": phase},
    )


def list_calls(session: str) -> ClientOperation[CallList]:
    """Fetch all calls with their usage and cost."""
    return build_read(format_path(api_paths.CALLS, session=session), CallList)


def fetch_references(session: str) -> ClientOperation[ReferencesView]:
    """Fetch the last reference."""
    return build_read(format_path(api_paths.REFERENCES, session=session), ReferencesView)


def fetch_blueprint(name: str) -> ClientOperation[BlueprintSchemas]:
    """Fetch a blueprint with the schemas of its values."""
    return build_read(format_path(api_paths.BLUEPRINT, blueprint=name), BlueprintSchemas)
