"""How what the log holds looks on a terminal: values in, rich renderables out, nothing read."""
