"""Builders and planes for tests and examples."""
