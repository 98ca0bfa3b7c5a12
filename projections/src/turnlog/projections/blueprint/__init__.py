"""Blueprints: the data that defines a kind of session, its validation and its loading."""
