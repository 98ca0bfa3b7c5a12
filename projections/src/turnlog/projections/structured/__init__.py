"""Answers that must be JSON with a given schema."""
