"""Schemas as data, and what is compiled from them: decoding, defaulting, pruning, validation, OpenAPI, CRDs."""
