"""The search for a placement of one canonical demand: closed forms first, then packing, backtracking, the solver."""
