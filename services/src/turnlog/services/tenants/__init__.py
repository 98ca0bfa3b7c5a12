"""Tenants: what each may use of an installation, and the commands that say so."""
