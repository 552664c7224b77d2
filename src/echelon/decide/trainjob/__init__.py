"""What a TrainJob needs next: its runtime snapshot, groups and JobSet, and its status.  Enter by `reconcile.decide`."""
