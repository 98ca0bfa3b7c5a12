"""Alerts: their rules, what became of them, and their evaluation once a minute."""
