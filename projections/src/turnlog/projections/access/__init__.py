"""The keys of an installation, folded from their events."""
