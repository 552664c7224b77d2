"""What a search works with: the canonical demand, tasks, budget, trial state, bounds, rules between pods."""
