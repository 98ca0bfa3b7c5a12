"""Replay a session as its user saw it, at the original pace."""
