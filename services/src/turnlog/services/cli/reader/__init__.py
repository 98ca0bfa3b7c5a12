"""Reading what the log holds, over HTTP: from a running service, or from one opened to read."""
