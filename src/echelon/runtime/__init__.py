"""The only room that knows all others: configuration, clocks, wiring, start and stop."""
