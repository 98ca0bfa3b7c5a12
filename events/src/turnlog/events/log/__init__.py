"""The log: what holds events, blobs, snapshots and tokens, whatever it is made of."""
