"""The audit: verification, explanation, comparison and what-if analysis of recorded calls.

Everything in this package is computed from the recorded events and blobs alone.
"""
