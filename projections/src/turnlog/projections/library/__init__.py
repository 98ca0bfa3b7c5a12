"""The segment library, folded from its own log, and its selection for calls."""
