"""Renderers of the command line: values in, rich renderables out; nothing is fetched here."""
