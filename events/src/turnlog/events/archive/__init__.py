"""Sessions that were moved from the record's stream into files, and are read there like before."""
