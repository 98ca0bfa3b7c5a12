"""Webhooks: subscriptions to the events of sessions, and their delivery over HTTP."""
