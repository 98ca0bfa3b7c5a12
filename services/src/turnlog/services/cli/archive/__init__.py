"""The archive of closed sessions at the command line."""
