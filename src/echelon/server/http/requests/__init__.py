"""Requests: authentication, path, query options, content negotiation, body."""
