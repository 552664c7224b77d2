"""What follows from a verdict: placing, preemption, reservation."""
