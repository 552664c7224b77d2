"""Which units to evict so that a demand fits, at the least loss."""
