"""What the scheduler tells: conditions, events, bindings as API writes, metrics."""
