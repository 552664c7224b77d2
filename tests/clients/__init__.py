"""Clients of other languages, unmodified and with their default settings."""
