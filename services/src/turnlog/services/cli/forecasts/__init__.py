"""The forecast of a session on a terminal."""
