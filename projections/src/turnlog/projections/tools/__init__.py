"""Tools as text: the catalog for models, parsed plans, and condensed results."""
