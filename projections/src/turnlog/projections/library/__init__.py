"""The library as its own log tells it: stored segments, and which of them a call is given."""
