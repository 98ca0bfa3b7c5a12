"""The HTTP front door: sessions, turns and everything that can be read of them, under `/v1`."""
