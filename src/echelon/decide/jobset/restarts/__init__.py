"""Restarts beyond the failure policy: in place, without new pods; and the count of all runs of a JobSet."""
