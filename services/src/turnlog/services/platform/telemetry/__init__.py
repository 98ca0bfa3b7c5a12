"""What a process reports of itself: traces of turns, and how long its event loop was held."""
