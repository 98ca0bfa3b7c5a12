"""Checks of this machine that say what is missing before a service is started."""
