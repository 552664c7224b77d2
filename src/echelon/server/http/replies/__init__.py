"""Replies: objects, lists and tables as bytes."""
