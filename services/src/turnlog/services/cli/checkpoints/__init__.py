"""Profiles of the command line: services with the keys that it signs in with."""
