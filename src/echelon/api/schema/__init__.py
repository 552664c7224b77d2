"""Structural schemas as data: decoding, defaulting, pruning, checking, OpenAPI, CRD manifests."""
