"""The embedded API server: one pipeline from request to store, and its HTTPS face."""
