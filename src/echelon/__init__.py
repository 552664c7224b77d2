"""Echelon: distributed training jobs placed, started and disturbed as one."""

__version__ = "0.1.0"
