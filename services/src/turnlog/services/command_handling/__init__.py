"""Commands on any history: decided on its state, and appended at most once for each key."""
