"""In the image in place of pandas, which OR-tools imports for an interface that nothing here uses.

CP-SAT asks only whether what it is given is one of these.
"""


class Index:
    """A set of labels, of which there is none here."""


class Series:
    """A column, of which there is none here."""
