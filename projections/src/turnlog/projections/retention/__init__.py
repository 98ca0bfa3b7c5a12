"""Retention: policies and holds of a tenant, and what they say of a session."""
