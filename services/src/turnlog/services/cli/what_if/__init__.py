"""What-if comparisons: how they are fetched, shown on a terminal and written as a page."""
