"""Placement as pure arithmetic: a view of the cluster and a demand in, one verdict with its reasons out."""
