"""The projector: folds what the log holds into the read models, for ever and exactly once."""
