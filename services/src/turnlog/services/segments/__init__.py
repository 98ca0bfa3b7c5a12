"""The segment library: stored texts with variants that prompts take."""
