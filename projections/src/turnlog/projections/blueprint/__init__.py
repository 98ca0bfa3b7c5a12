"""Blueprints: the data that defines a kind of session."""
