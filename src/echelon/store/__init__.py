"""The durable store: a log of keys and bytes, numbered by revision, with compare-and-set and watch."""
