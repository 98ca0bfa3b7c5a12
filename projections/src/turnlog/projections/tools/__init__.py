"""Tools as texts: how a model is told of them, what it planned, and what of a result it is told."""
