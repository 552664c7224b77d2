"""The cluster as arrays: nodes, domains, free amounts, slots, running pods; updated by events, not rebuilt."""
