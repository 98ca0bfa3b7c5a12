"""The all-in-one process behind `turnlog up`."""
