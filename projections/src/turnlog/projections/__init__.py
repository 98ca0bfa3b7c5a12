"""The projections of a session's log: its state, its prompts, its read models and its audit."""
