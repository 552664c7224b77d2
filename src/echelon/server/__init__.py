"""The embedded API server: a pipeline from request to store, and its HTTPS server."""
