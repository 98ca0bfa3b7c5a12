"""The projector folds the log into the read models, continuously and exactly once."""
