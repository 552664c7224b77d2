"""The durable truth: a revisioned log of keys and bytes with compare-and-set and watch."""
