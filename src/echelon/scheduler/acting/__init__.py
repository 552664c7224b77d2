"""What follows from a verdict: binding, preemption, reservation."""
