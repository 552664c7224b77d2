"""The version of Echelon."""

__version__ = "0.1.0"
