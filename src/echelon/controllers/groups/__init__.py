"""Groups of pods: those that Jobs ask for, and what keeps groups while they are needed."""
