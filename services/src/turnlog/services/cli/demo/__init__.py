"""The demo: start everything in one process, play a conversation, and show what the log holds."""
