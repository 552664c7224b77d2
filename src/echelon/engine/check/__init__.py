"""An independent judge of verdicts. It imports `records` and `cluster.view` only, nothing of the search."""
