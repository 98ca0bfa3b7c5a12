"""One session as a pure model: its state, the rules that decide, and the fold of its events."""
