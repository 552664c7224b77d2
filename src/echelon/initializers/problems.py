"""Why an initializer cannot do its work."""

from __future__ import annotations


class LoadingFailed(Exception):
    """The message is for the user; the initializer ends with it."""


class Refused(LoadingFailed):
    """A server's answer that trying again does not change."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
