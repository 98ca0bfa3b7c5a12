"""Rules for what a turn does between its calls: tools, approvals and summaries."""
