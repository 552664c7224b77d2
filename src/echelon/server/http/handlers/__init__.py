"""Handlers: one per verb, and those of discovery, OpenAPI, health, version and metrics."""
