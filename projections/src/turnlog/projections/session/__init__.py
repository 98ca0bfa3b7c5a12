"""A session as its log tells it: the state, how events change it, and what may happen next."""
