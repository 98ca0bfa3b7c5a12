"""The prompt of a call to a model, and the manifest that records how it was assembled."""
