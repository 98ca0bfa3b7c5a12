"""Opening, reading, forking and steering sessions."""
