"""Commands on keys, and their views."""
