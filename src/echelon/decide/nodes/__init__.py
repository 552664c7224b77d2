"""Decisions about nodes and the pods on them."""
