"""Quotas: the limits of users, and what their turns reserve and use of them."""
