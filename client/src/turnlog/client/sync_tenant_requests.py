"""Requests about no session, written from `async_tenant_requests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from turnlog.client import (
    delivery_operations,
    key_operations,
    tenant_operations,
)
from turnlog.client.session_filters import ReadFilters
from turnlog.client.sync_connection import ServiceConnection
from turnlog.contract.alert_payloads import (
    AlertChangeResult,
    AlertHistory,
    AlertPage,
    AlertResult,
)
from turnlog.contract.installation.key_payloads import CreatedKey, KeyPage, KeyResult, PrincipalView
from turnlog.contract.installation.read_payloads import ReadPage
from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    HoldResult,
    PolicyResult,
    RetentionView,
)
from turnlog.contract.installation.tenant_payloads import TenantPage, TenantResult
from turnlog.contract.knowledge_payloads import (
    CollectionList,
    EntryKindWord,
    EntryPage,
    EntryRow,
    ImportedEntry,
    KnowledgeChangeResult,
    KnowledgeSearchResult,
    PutEntryRequest,
)
from turnlog.contract.override_payloads import (
    OverrideCategory,
    OverridePage,
    OverrideRemovalResult,
    OverrideTextView,
)
from turnlog.contract.usage_payloads import MediaLimitView, QuotaPage, QuotaView, UsageReport
from turnlog.contract.use_payloads import UsePage
from turnlog.contract.webhook_payloads import (
    AddedWebhook,
    WebhookDeliveries,
    WebhookPage,
    WebhookResult,
)


class TenantRequests(ServiceConnection):
    """Sends the requests about what a tenant has beside its sessions."""

    def put_entry(
        self, collection: str, entry: str, form: PutEntryRequest
    ) -> KnowledgeChangeResult:
        """Add an entry of knowledge, or change it so that it is as given."""
        return self.send(tenant_operations.put_entry(collection, entry, form))

    def import_entries(
        self,
        collection: str,
        entries: Sequence[ImportedEntry],
        *,
        replace_sources: bool = False,
    ) -> KnowledgeChangeResult:
        """Add or edit entries, all or none.

        `replace_sources` removes what came from the same sources before and is not among them.
        """
        return self.send(
            tenant_operations.import_entries(collection, entries, replace_sources=replace_sources)
        )

    def list_collections(self, *, min_sequence: int | None = None) -> CollectionList:
        """Return the collections of the knowledge, as of a change with `min_sequence`."""
        return self.send(tenant_operations.list_collections(min_sequence))

    def list_entries(
        self,
        collection: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        min_sequence: int | None = None,
    ) -> EntryPage:
        """Return a page of a collection's entries; `after` is the `next` of the page before it."""
        return self.send(tenant_operations.list_entries(collection, after, limit, min_sequence))

    def fetch_entry(
        self, collection: str, entry: str, *, min_sequence: int | None = None
    ) -> EntryRow:
        """Return an entry as it is now."""
        return self.send(tenant_operations.fetch_entry(collection, entry, min_sequence))

    def search_knowledge(
        self,
        text: str,
        *,
        collections: Sequence[str] = (),
        limit: int | None = None,
        kinds: Sequence[EntryKindWord] = (),
        min_efficiency: float | None = None,
        exclude_negative: bool = False,
    ) -> KnowledgeSearchResult:
        """Return what is found in collections, best first; in all where none is named."""
        form = {
            "text": text,
            "collections": list(collections),
            "limit": limit,
            "kinds": list(kinds),
            "min_efficiency": min_efficiency,
            "exclude_negative": exclude_negative,
        }
        return self.send(tenant_operations.search_knowledge(form))

    def remove_entry(self, collection: str, entry: str) -> KnowledgeChangeResult:
        """Remove an entry; no later turn retrieves it."""
        return self.send(tenant_operations.remove_entry(collection, entry))

    def remove_collection(self, collection: str) -> KnowledgeChangeResult:
        """Remove all entries of a collection."""
        return self.send(tenant_operations.remove_collection(collection))

    def set_override(
        self,
        user: str,
        blueprint: str,
        category: OverrideCategory,
        text: str,
        *,
        profile: str | None = None,
        provider: str | None = None,
    ) -> OverrideTextView:
        """Set a user's own text of a category, from the user's next turn on.

        With `profile` or `provider` it is for that one only, and stands before one for all.
        """
        form = {"text": text, "profile": profile, "provider": provider}
        return self.send(tenant_operations.set_override(user, blueprint, category, form))

    def fetch_override(
        self,
        user: str,
        blueprint: str,
        category: OverrideCategory,
        *,
        profile: str | None = None,
        provider: str | None = None,
    ) -> OverrideTextView:
        """Return a user's own text that was set for exactly this profile and provider."""
        return self.send(
            tenant_operations.fetch_override(
                user=user,
                blueprint=blueprint,
                category=category,
                profile=profile,
                provider=provider,
            )
        )

    def list_overrides(
        self, user: str | None = None, *, blueprint: str | None = None
    ) -> OverridePage:
        """Return the own texts of a user, by default of the one whom a trusted proxy names."""
        return self.send(tenant_operations.list_overrides(user, blueprint))

    def remove_override(
        self,
        user: str,
        blueprint: str,
        category: OverrideCategory,
        *,
        profile: str | None = None,
        provider: str | None = None,
    ) -> OverrideRemovalResult:
        """Remove a user's own text that was set for exactly this profile and provider."""
        return self.send(
            tenant_operations.remove_override(
                user=user,
                blueprint=blueprint,
                category=category,
                profile=profile,
                provider=provider,
            )
        )

    def set_quota(
        self,
        user: str,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        requests_per_hour: int | None = None,
        requests_per_day: int | None = None,
    ) -> QuotaView:
        """Set all limits of a user; one that is not named is unlimited from then on."""
        limits = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "requests_per_hour": requests_per_hour,
            "requests_per_day": requests_per_day,
        }
        return self.send(tenant_operations.set_quota(user, limits))

    def fetch_quota(self, user: str) -> QuotaView:
        """Return what is left of a user's limits, and whether a turn is allowed now."""
        return self.send(tenant_operations.fetch_quota(user))

    def set_media_limit(self, limit: int | None) -> MediaLimitView:
        """Set how many bytes the media of the tenant may have together; None is unlimited."""
        return self.send(tenant_operations.set_media_limit(limit))

    def fetch_media_limit(self) -> MediaLimitView:
        """Return what the tenant may store, and what it has stored."""
        return self.send(tenant_operations.fetch_media_limit())

    def list_quotas(self) -> QuotaPage:
        """Return the users who have a limit."""
        return self.send(tenant_operations.list_quotas())

    def add_webhook(
        self,
        name: str,
        url: str,
        *,
        types: Sequence[str] = (),
        blueprint: str | None = None,
        attributes: Mapping[str, str] | None = None,
        after: int | None = None,
        alerts: bool = False,
    ) -> AddedWebhook:
        """Deliver events to an address from now on; only this answer has the secret.

        With `alerts` they are those of alerts, else those of sessions.
        """
        form = {
            "name": name,
            "url": url,
            "types": list(types),
            "blueprint": blueprint,
            "attributes": dict(attributes or {}),
            "after": after,
            "alerts": alerts or None,
        }
        return self.send(delivery_operations.add_webhook(form))

    def list_webhooks(self) -> WebhookPage:
        """Return the webhooks with how far each has got."""
        return self.send(delivery_operations.list_webhooks())

    def fetch_webhook_deliveries(self, name: str) -> WebhookDeliveries:
        """Return how far a webhook has got, with every session that is behind."""
        return self.send(delivery_operations.fetch_deliveries(name))

    def pause_webhook(self, name: str) -> WebhookResult:
        """Deliver nothing until the webhook is resumed."""
        return self.send(delivery_operations.pause_webhook(name))

    def resume_webhook(self, name: str) -> WebhookResult:
        """Deliver from where the webhook was, also if a deliverer stopped it by itself."""
        return self.send(delivery_operations.resume_webhook(name))

    def redeliver_webhook(self, name: str, session: str | None = None) -> WebhookResult:
        """Deliver what was given up, of one session or of all."""
        return self.send(delivery_operations.redeliver_webhook(name, session))

    def remove_webhook(self, name: str) -> WebhookResult:
        """Remove a webhook."""
        return self.send(delivery_operations.remove_webhook(name))

    def create_key(
        self,
        name: str,
        roles: Sequence[str],
        *,
        user: str | None = None,
        expires: datetime | None = None,
        tenant: str | None = None,
    ) -> CreatedKey:
        """Create a key of a user, or of an application; only this answer has the whole of it."""
        form = {
            "name": name,
            "roles": list(roles),
            "user": user,
            "expires": expires and expires.isoformat(),
            "tenant": tenant,
        }
        return self.send(key_operations.create_key(form))

    def list_keys(self, tenant: str | None = None) -> KeyPage:
        """Return the keys of a tenant without their secret parts, by default of one's own."""
        return self.send(key_operations.list_keys(tenant))

    def rotate_key(
        self,
        name: str,
        *,
        overlap_seconds: int = 0,
        expires: datetime | None = None,
        tenant: str | None = None,
    ) -> CreatedKey:
        """Replace the secret part of a key; the one before it signs in for `overlap_seconds`."""
        form = {"overlap_seconds": overlap_seconds, "expires": expires and expires.isoformat()}
        return self.send(key_operations.rotate_key(name, form, tenant))

    def revoke_key(self, name: str, tenant: str | None = None) -> KeyResult:
        """Let a key sign in no more, everywhere within a second."""
        return self.send(key_operations.revoke_key(name, tenant))

    def fetch_principal(self) -> PrincipalView:
        """Return who this client is to the service, and what it may do."""
        return self.send(key_operations.fetch_principal())

    def list_tenants(self) -> TenantPage:
        """Return the tenants that the sender may see: all with the root key, else its own."""
        return self.send(key_operations.list_tenants())

    def fetch_tenant(self, tenant: str) -> TenantResult:
        """Return a tenant with its settings."""
        return self.send(key_operations.fetch_tenant(tenant))

    def configure_tenant(self, tenant: str, **changes: object) -> TenantResult:
        """Change the settings of a tenant that are named, with the root key; None removes one.

        They have the names of HTTP, such as `models` and `max_open_turns`.
        """
        return self.send(key_operations.configure_tenant(tenant, changes))

    def list_retention(self) -> RetentionView:
        """Return the policies and holds of the tenant."""
        return self.send(key_operations.list_retention())

    def set_policy(self, name: str, **form: object) -> PolicyResult:
        """Set how long sessions are kept, and when they are erased.

        The rest has the names of HTTP: `where` or `all_sessions`, `keep_for` with `law`, and
        `erase_after`.
        """
        return self.send(key_operations.set_policy({"name": name, **form}))

    def remove_policy(self, name: str) -> PolicyResult:
        """Remove a policy: it refuses and erases nothing any more."""
        return self.send(key_operations.remove_policy(name))

    def place_hold(self, name: str, *, reason: str, **form: object) -> HoldResult:
        """Have nothing of some sessions erased, by anyone, until the hold is released.

        The rest has the names of HTTP: `where`, with `session`, `user`, `blueprint` or `labels`, or
        `all_sessions`.
        """
        form = {"name": name, "reason": reason, **form}
        return self.send(key_operations.place_hold(form))

    def release_hold(self, name: str, *, reason: str) -> HoldResult:
        """End a hold; what waits for it goes on by itself."""
        return self.send(key_operations.release_hold(name, reason))

    def list_due_sessions(self) -> DueSessions:
        """Return the sessions that policies say to erase by now, and what keeps them."""
        return self.send(key_operations.list_due_sessions())

    def erase_due_sessions(self) -> DueSessions:
        """Erase sessions that are due without waiting for the schedule, so many at a time."""
        return self.send(key_operations.erase_due_sessions())

    def list_alerts(self) -> AlertPage:
        """Return the alerts with their rules and their state now."""
        return self.send(delivery_operations.list_alerts())

    def fetch_alert(self, name: str) -> AlertResult:
        """Return an alert with its rule and its state now."""
        return self.send(delivery_operations.fetch_alert(name))

    def fetch_alert_history(self, name: str, limit: int | None = None) -> AlertHistory:
        """Return when an alert was raised, cleared and so on, the newest first."""
        return self.send(delivery_operations.fetch_alert_history(name, limit))

    def apply_alerts(
        self, rules: Sequence[Mapping[str, Any]], *, remove_others: bool = False
    ) -> AlertChangeResult:
        """Set rules of alerts, all of them or none, in the form of `alerts.yaml`."""
        operation = delivery_operations.apply_alerts(rules, remove_others=remove_others)
        return self.send(operation)

    def remove_alert(self, name: str) -> AlertChangeResult:
        """Remove the rule of an alert, which is cleared if it is raised."""
        return self.send(delivery_operations.remove_alert(name))

    def fetch_usage(
        self,
        *,
        group_by: str = "all",
        user: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> UsageReport:
        """Return what turns used, in all and by group; times need a time zone.

        Groups are by `user`, `profile`, `blueprint`, `model`, `day`, `hour`, or by the value that
        an attribute of the session has: `attribute.NAME`.
        """
        query = {
            "group_by": group_by,
            "user": user,
            "since": since,
            "until": until,
        }
        return self.send(tenant_operations.fetch_usage(query))

    def list_uses(
        self,
        source: str,
        *,
        session: str | None = None,
        replies: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> UsePage:
        """Return a page of the calls that had a source in their prompt, and by which way.

        A source is named as `document:COLLECTION/ENTRY` or `turn:SESSION/3`. With `replies`, a
        reply is taken to repeat what its prompt had. `limit` is at most 500, and 100 by default.
        `after` is the `next` of the page before it.
        """
        operation = tenant_operations.list_uses(
            source, session=session, replies=replies, after=after, limit=limit
        )
        return self.send(operation)

    def list_reads(self, **filters: Unpack[ReadFilters]) -> ReadPage:
        """Return who looked at prompts, withheld texts, bundles and exports, the newest first.

        `before` is the `next` of the page before it; times need a time zone.
        """
        return self.send(tenant_operations.list_reads(filters))
