"""The demo: everything started, a conversation played, and what the log holds of it shown."""
