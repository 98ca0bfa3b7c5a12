"""What-if comparisons: read a changed blueprint, fetch the report, and render it."""
