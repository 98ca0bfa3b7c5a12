"""The paths of the service, as its routes have them; clients fill in the fields.

A field with `:path` may contain a slash.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

API: Final = "/v1"
"""Below it is everything but the page and the probes."""

# Sessions
SESSIONS: Final = "/v1/sessions"
SESSION: Final = "/v1/sessions/{session}"
FORK: Final = "/v1/sessions/{session}/fork"
CANCEL: Final = "/v1/sessions/{session}/cancel"
CLOSE: Final = "/v1/sessions/{session}/close"
REDACTIONS: Final = "/v1/sessions/{session}/redactions"
ERASURES: Final = "/v1/sessions/{session}/erasures"
USER_ERASURES: Final = "/v1/erasures"
SOURCE_ERASURES: Final = "/v1/erasures/sources"
ERASURE: Final = "/v1/sessions/{session}/erasures/{sequence}"
ERASURE_PROOF: Final = "/v1/sessions/{session}/erasures/{sequence}/proof"
CHOICES: Final = "/v1/sessions/{session}/choices"
PHASE: Final = "/v1/sessions/{session}/phase"
PROFILE: Final = "/v1/sessions/{session}/profile"
TOOL_SCHEMAS: Final = "/v1/sessions/{session}/schemas"
SHARE: Final = "/v1/sessions/{session}/shares/{user:path}"
SESSION_BLUEPRINT: Final = "/v1/sessions/{session}/blueprint"

# Turns
TURNS: Final = "/v1/sessions/{session}/turns"
HISTORY: Final = "/v1/sessions/{session}/history"
TURN_STREAM: Final = "/v1/sessions/{session}/turns/{turn}/stream"
TIMELINE: Final = "/v1/sessions/{session}/turns/{turn}/timeline"
TURN: Final = "/v1/sessions/{session}/turns/{turn}"
EXCLUSION: Final = "/v1/sessions/{session}/turns/{turn}/exclusion"
DISPLAY: Final = "/v1/sessions/{session}/turns/{turn}/display"
FEEDBACK: Final = "/v1/sessions/{session}/turns/{turn}/feedback"
APPROVAL: Final = "/v1/sessions/{session}/turns/{turn}/approvals/{approval}"
APPROVALS: Final = "/v1/approvals"
ASK: Final = "/v1/ask"

# Memory
MEMORY: Final = "/v1/sessions/{session}/memory"
REFERENCES: Final = "/v1/sessions/{session}/references"
RESOLVE_REFERENCES: Final = "/v1/sessions/{session}/references/resolve"
SUMMARIES: Final = "/v1/sessions/{session}/summaries"
UNDO_SUMMARY: Final = "/v1/sessions/{session}/summaries/{sequence}/undo"
PURGE: Final = "/v1/sessions/{session}/purge"

# Calls and prompts
CALLS: Final = "/v1/sessions/{session}/calls"
PROMPT: Final = "/v1/sessions/{session}/calls/{call}/prompt"
ASSEMBLY: Final = "/v1/sessions/{session}/calls/{call}/assembly"
TOOL_RESULT: Final = "/v1/sessions/{session}/calls/{call}/tools/{id:path}"
CALL_DIFF: Final = "/v1/sessions/{session}/calls/{call}/diff/{second}"
EXPLAINED_CALL: Final = "/v1/sessions/{session}/calls/{call}/why"
EXPLAINED_TURN: Final = "/v1/sessions/{session}/turns/{turn}/why"
WINDOW: Final = "/v1/sessions/{session}/window"
ASSEMBLE: Final = "/v1/assemble"
WHAT_IF: Final = "/v1/what-if"
GROWTH: Final = "/v1/growth"
FORECAST: Final = "/v1/sessions/{session}/forecast"
CACHE_BREAKS: Final = "/v1/cache-breaks"
OVERVIEW: Final = "/v1/overview"
USES: Final = "/v1/uses"

# Events and their verification
EVENTS: Final = "/v1/events"
SESSION_EVENTS: Final = "/v1/sessions/{session}/events"
EXPORT: Final = "/v1/sessions/{session}/export"
VERIFY_LOG: Final = "/v1/verify"
VERIFY_SESSION: Final = "/v1/sessions/{session}/verify"
CHECKPOINT: Final = "/v1/checkpoint"
CALL_PROOF: Final = "/v1/sessions/{session}/calls/{call}/proof"

# Pictures, recordings and files
BLOBS: Final = "/v1/blobs"
BLOB: Final = "/v1/blobs/{digest}"

# Blueprints and segments
BLUEPRINTS: Final = "/v1/blueprints"
BLUEPRINT: Final = "/v1/blueprints/{blueprint}"
PINS: Final = "/v1/pins"
SEGMENTS: Final = "/v1/segments"
SEGMENT: Final = "/v1/segments/{segment}"
IMPORT_SEGMENTS: Final = "/v1/segments/import"

# Knowledge
COLLECTIONS: Final = "/v1/knowledge/collections"
COLLECTION: Final = "/v1/knowledge/collections/{collection}"
ENTRY: Final = "/v1/knowledge/collections/{collection}/entries/{entry}"
IMPORT_KNOWLEDGE: Final = "/v1/knowledge/import"
SEARCH_KNOWLEDGE: Final = "/v1/knowledge/search"

# Users
OVERRIDES: Final = "/v1/overrides"
OVERRIDE: Final = "/v1/overrides/{blueprint}/{category}/{user:path}"
QUOTAS: Final = "/v1/quotas"
QUOTA: Final = "/v1/quotas/{user:path}"
MEDIA_LIMIT: Final = "/v1/media-limit"
USAGE: Final = "/v1/usage"

# Webhooks
WEBHOOKS: Final = "/v1/webhooks"
WEBHOOK: Final = "/v1/webhooks/{name}"
WEBHOOK_DELIVERIES: Final = "/v1/webhooks/{name}/deliveries"
PAUSE_WEBHOOK: Final = "/v1/webhooks/{name}/pause"
RESUME_WEBHOOK: Final = "/v1/webhooks/{name}/resume"
REDELIVER_WEBHOOK: Final = "/v1/webhooks/{name}/redeliver"

# Alerts
ALERTS: Final = "/v1/alerts"
ALERT: Final = "/v1/alerts/{name}"
ALERT_HISTORY: Final = "/v1/alerts/{name}/history"

# Retention: policies, holds, and what is due
RETENTION: Final = "/v1/retention"
RETENTION_POLICIES: Final = "/v1/retention/policies"
RETENTION_POLICY: Final = "/v1/retention/policies/{name}"
HOLDS: Final = "/v1/retention/holds"
RELEASE_HOLD: Final = "/v1/retention/holds/{name}/release"
DUE_SESSIONS: Final = "/v1/retention/due"

# Keys, and who signs in with them
KEYS: Final = "/v1/keys"
KEY: Final = "/v1/keys/{name}"
ROTATE_KEY: Final = "/v1/keys/{name}/rotate"
PRINCIPAL: Final = "/v1/principal"
SIGN_IN: Final = "/v1/sign-in"
SIGN_IN_AT_ISSUER: Final = "/v1/sign-in/issuer"
SIGN_IN_RETURN: Final = "/v1/sign-in/return"
BROWSER_TOKENS: Final = "/v1/sessions/{session}/tokens"

# Tenants
TENANTS: Final = "/v1/tenants"
TENANT: Final = "/v1/tenants/{tenant}"

# The log of reads
READS: Final = "/v1/reads"

REASON_HEADER: Final = "Turnlog-Reason"
"""The header in which whoever looks at a prompt or an export says why, in UTF-8."""

MAX_REASON_LENGTH: Final = 500
"""Characters of a reason."""


# Read models that stopped
QUARANTINE: Final = "/v1/quarantine"
QUARANTINED_SESSION: Final = "/v1/quarantine/{session}"
RELEASE: Final = "/v1/quarantine/{session}/release"

_FIELD: Final = re.compile(r"\{(\w+)(?::path)?\}")


def format_path(template: str, **fields: str | int) -> str:
    """Return a path with its fields filled in; each is one step, whatever characters it has."""
    return _FIELD.sub(lambda field: quote(str(fields[field[1]]), safe=""), template)
