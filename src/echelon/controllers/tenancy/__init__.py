"""Namespaces: what each is given when it comes, and that it goes with all that is in it."""
