"""Sealing in the services: the keyring of an installation, and what seals what is appended."""
