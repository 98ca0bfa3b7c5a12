"""How the command line reaches a service over HTTP or opens a data directory."""
