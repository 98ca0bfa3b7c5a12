"""Quotas: the limits of users, what their turns reserve at most, and what they used."""
