"""`make bench-local`: what pods that run as processes cost, beside the bare processes."""
