"""The stream of sessions, made anew without the sessions that are moved into the archive."""
