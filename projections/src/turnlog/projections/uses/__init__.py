"""Uses of a source: which calls had a text in their prompt, directly or through another text."""
