"""Odd objects and requests: none of them may break the plane."""
