"""Replaying a session: as its user saw it, at the pace it had."""
