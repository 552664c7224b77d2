"""What pods on this machine may use: which limits the kernel enforces, and which GPUs are whose."""
