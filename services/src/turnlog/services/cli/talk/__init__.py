"""Talking to a session over HTTP: what `chat` and the demo do."""
