"""What the Job controller does, as pure functions; `sync` is the door, the other files hold one policy each."""
