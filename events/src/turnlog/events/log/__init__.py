"""The event store: its ports, the outcomes of an append, and a log in memory."""
