"""Log lines of the programs: text for people, JSON for machines; level and form may change while they run.

A message is constant text; what it is about stands in fields (`extra={"fields": {...}}`): names, counts, times.
Nothing from inside an object gets there, so no secret does.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from ...base.instants import to_micro_time
from ...base.program_options import Values

_PREFIX = "echelon."


def set_up_logging(values: Values) -> None:
    """Level and form as configured; called again when they change."""
    root = logging.getLogger()
    # That of the command before it knew its configuration, or the one before.
    for known in [known for known in root.handlers if type(known) is logging.StreamHandler]:
        root.removeHandler(known)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if values["logFormat"] == "json" else TextLines())
    root.addHandler(handler)
    root.setLevel(values["logLevel"].upper())


class TextLines(logging.Formatter):
    """`time LEVEL logger: message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix(_PREFIX)
        fields = "".join(f" {key}={_plain(value)}" for key, value in _fields(record).items())
        # What a server or a user has written may have line ends; a record is one line, so that none can be forged.
        message = _printable(record.getMessage())
        line = f"{to_micro_time(record.created)} {record.levelname} {name}: {message}{fields}"
        # For the same reason nothing of a traceback stands at the start of a line.
        trouble = [f"  {_printable(one)}" for one in _exception(self, record).split("\n") if one]
        return "\n".join((line, *trouble))


class JsonLines(logging.Formatter):
    """One JSON object per line, with the fields beside time, level, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": to_micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix(_PREFIX),
            "message": record.getMessage(),
            **_fields(record),
        }
        trouble = _exception(self, record)
        if trouble:
            line["exception"] = trouble
        return msgspec.json.encode(line, enc_hook=str).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", None) or {}


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _printable(text: str) -> str:
    """Without what ends a line or moves a cursor: such characters as they are written in Python."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _plain(value: object) -> str:
    """Quoted as in JSON where it has blanks, quotes or line ends."""
    text = str(value)
    return text if text.isprintable() and text and not {" ", '"'} & {*text} else msgspec.json.encode(text).decode()
