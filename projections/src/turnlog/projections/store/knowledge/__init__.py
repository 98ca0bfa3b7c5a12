"""The index of knowledge in the database: its rows, its words and vectors, and the search."""
