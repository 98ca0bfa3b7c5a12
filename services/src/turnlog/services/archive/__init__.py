"""The archive: closed sessions are moved from the stream of sessions into files."""
