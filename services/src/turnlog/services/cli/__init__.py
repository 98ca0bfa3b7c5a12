"""The command line: what people and scripts do with Turnlog from a terminal."""
