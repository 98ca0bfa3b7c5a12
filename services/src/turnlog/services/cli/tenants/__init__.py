"""Commands on tenants, and their views."""
