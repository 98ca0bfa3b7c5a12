"""The window: what the next call to a model sees, and the record of why."""
