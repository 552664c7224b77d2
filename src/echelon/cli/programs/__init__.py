"""`echelon scheduler` and `echelon controllers`, which have a config file."""
