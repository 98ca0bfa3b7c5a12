"""Alerts: what can be measured, the rules of a tenant, and when a rule raises its alert."""
