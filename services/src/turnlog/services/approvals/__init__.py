"""Approvals: tools that wait for a person, watching for them, and deciding."""
