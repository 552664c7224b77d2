"""What leaves the scheduler: bindings, evictions, conditions and events as API writes; metrics."""
