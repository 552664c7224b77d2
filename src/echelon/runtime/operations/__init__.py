"""What people who run `echelon scheduler` and `echelon controllers` look at and change while they run."""
