"""From API objects to the engine's view and the forest of groups, one event at a time."""
