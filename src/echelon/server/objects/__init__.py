"""Objects between requests and the store: decoded trees, what a client sent, what is kept."""
