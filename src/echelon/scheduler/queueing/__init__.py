"""Which root is decided next, what state each root is in, and what is known to be blocked."""
