"""Controllers: thin shells that fetch from caches, let `decide` decide, and enact its plan."""
