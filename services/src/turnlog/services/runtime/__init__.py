"""The services that all roles share."""
