"""Builders for tests and examples: small clusters and demands in a line or two."""
