"""The knowledge of a tenant: collections of cases and documents, and the search over them."""
