"""How long the placement engine takes to decide, beside a faithful per-pod greedy loop over the same view."""
