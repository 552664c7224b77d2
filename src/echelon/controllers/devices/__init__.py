"""Controllers of claims on devices."""
