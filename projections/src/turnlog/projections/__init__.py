"""What the log of a session means: its state, its window and its read models."""
