"""Whether a root can be decided now, and its tree as a demand for the engine."""
