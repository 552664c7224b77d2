"""Controllers of the kinds that keep pods running."""
