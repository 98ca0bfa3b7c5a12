"""Sessions taken out of the house: bundles that a stranger checks alone, lines, tables, talk."""
