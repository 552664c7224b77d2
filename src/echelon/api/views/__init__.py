"""Typed views of the objects that decisions and the scheduler read.  `object_view` says how they are decoded."""
