"""Embedding of texts by a provider."""
