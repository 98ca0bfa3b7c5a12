"""Events of an installation: who may use it."""
