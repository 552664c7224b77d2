"""Requests: who asks for what, in which form, with which body and options."""
