"""Keys: creating, listing, rotating and revoking them."""
