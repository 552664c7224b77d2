"""Echelon: distributed training jobs placed, started and disturbed as one."""
