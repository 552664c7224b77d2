"""CustomResourceDefinitions: the kinds that they define, and the state of their names."""
