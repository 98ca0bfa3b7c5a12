"""Requests and responses about the installation itself: who may use it."""
