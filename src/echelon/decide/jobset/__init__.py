"""What a JobSet needs next: Jobs, Service, groups, order, restarts, its end.  `reconcile.decide` is the door."""
