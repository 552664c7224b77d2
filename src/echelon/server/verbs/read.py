"""GET: one object, or a list with selectors, pages and resourceVersion."""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import msgspec

from ...api.errors import ApiError, FieldError, bad_request, expired, forbidden_field
from ...api.objects.selectors import OWN_FIELDS, FieldSelector, LabelSelector, custom_fields_of, own_fields_of
from ...api.scheme import Object, Resource
from ...api.verbs import ListOptions, ObjectList
from ...base.decimals import read_count
from ...store.interface import Compacted, Record
from ..objects.encoded import EncodedList, decode_json
from ..objects.stored_objects import Access, at_version, encoded_at_version, prefix_of

#: How long a list waits for a resourceVersion that does not exist yet.
_PATIENCE_SECONDS = 3.0
#: Objects that are decoded, and comparisons of records with terms of selectors, in one step of the event loop.
_SLICE, _FILTERED = 200, 4_000
_IN_KEY = frozenset(("metadata.name", "metadata.namespace"))
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - the format of a page token, no secret


@dataclass(frozen=True)
class Filter:
    """What a list or watch selects: a key prefix, a label selector and a field selector."""

    prefix: str
    labels: LabelSelector
    fields: FieldSelector
    #: Fields that a definition makes selectable; the store does not index them, because a definition may change.
    custom_fields: tuple[str, ...] = ()
    #: Fields of the selector that the store does not index, because no two objects have them in common.
    own_fields: frozenset[str] = frozenset()

    @staticmethod
    def parse(resource: Resource, namespace: str, label_selector: str, field_selector: str) -> Filter:
        """`ApiError` 400 for an invalid selector."""
        fields = FieldSelector.parse(field_selector, resource)
        return Filter(
            prefix_of(resource, namespace),
            LabelSelector.parse(label_selector),
            fields,
            resource.custom.selectable if resource.custom is not None and field_selector else (),
            frozenset(term.field for term in fields.terms).intersection(OWN_FIELDS),
        )

    @property
    def everything(self) -> bool:
        return self.labels.empty and self.fields.empty

    def matches(self, record: Record) -> bool:
        if not self.labels.matches(record.header.labels):
            return False
        if self.fields.empty:
            return True
        if self.custom_fields:
            return self.fields.matches(custom_fields_of(self.custom_fields, decode_json(record.value)))
        if self.own_fields:
            return self.fields.matches({**record.header.fields, **self._own_fields_of(record)})
        return self.fields.matches(record.header.fields)

    def _own_fields_of(self, record: Record) -> dict[str, str]:
        """Name and namespace by the key; what else is needed is decoded."""
        if self.own_fields - _IN_KEY:
            return own_fields_of(decode_json(record.value))
        place, _, name = record.key.rpartition("/")
        return {"metadata.name": name, "metadata.namespace": place.rpartition("/")[2]}


class _Token(msgspec.Struct, rename={"version": "v", "revision": "rv"}):
    """The continue token of a list: next key `start`, at `revision` (0: newest state)."""

    version: str
    revision: int
    start: str


def bad_options(kind: str, problem: FieldError) -> ApiError:
    """422 for options that contradict each other."""
    cause = {"reason": problem.reason, "message": problem.message, "field": problem.field}
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [cause]}
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {problem}', details)


def parse_version(text: str) -> int:
    """A resourceVersion as a number; "" is 0."""
    version = read_count(text or "0")
    if version is None:
        raise bad_request(f'invalid resource version "{text[:100]}": it must be a decimal number')
    return version


@dataclass(frozen=True, slots=True)
class Page:
    """The records of a list, or of one page of it."""

    records: Sequence[Record]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class _Values(Sequence[bytes]):
    """The values of records, without a list of them."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, position: int) -> bytes: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[bytes]: ...

    def __getitem__(self, position: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(position, slice):
            return [record.value for record in self._records[position]]
        return self._records[position].value


async def list_objects(access: Access, resource: Resource, namespace: str, options: ListOptions) -> ObjectList:
    page = await select_page(access, resource, namespace, options)
    items: list[Object] = []
    for start in range(0, len(page.records), _SLICE):
        if start:
            await access.turns.next()
        part = page.records[start : start + _SLICE]
        items += [at_version(resource, access.trees.of_record(record)) for record in part]
    return ObjectList(items, str(page.revision), page.continue_token, page.remaining)


async def list_encoded(access: Access, resource: Resource, namespace: str, options: ListOptions) -> EncodedList:
    """The same list as stored bytes."""
    page = await select_page(access, resource, namespace, options)
    return EncodedList(_Values(page.records), str(page.revision), page.continue_token, page.remaining)


async def select_page(access: Access, resource: Resource, namespace: str, options: ListOptions) -> Page:
    """The selected records at one revision; 410 if it is too old."""
    wanted = Filter.parse(resource, namespace, options.label_selector, options.field_selector)
    _check(options)
    if options.continue_token:
        token = _parse_token(options.continue_token)
        at = token.revision or access.store.revision
        records, start = _page_source(access, wanted, at, token.start)
    else:
        at, start = await _revision(access, options), 0
        # A named revision: other pages, and others' lists while nothing is written, ask for the same snapshot.
        records = _at(access, wanted.prefix, at)
    limit = options.limit if options.limit > 0 else len(records)
    if wanted.everything:
        page, rest = records[start : start + limit], max(0, len(records) - start - limit)
    else:
        page, rest = await _select(access, wanted, records, start, limit)
    if not rest:
        return Page(page, at)
    token_text = _token(at, page[-1].key.removeprefix(wanted.prefix) + "\0")
    return Page(page, at, token_text, rest if wanted.everything else None)


async def _select(
    access: Access, wanted: Filter, records: Sequence[Record], start: int, limit: int
) -> tuple[list[Record], int]:
    """Up to `limit` matching records from a position on, and whether there are more (1 or 0)."""
    found: list[Record] = []
    step = max(1, _FILTERED // (1 + len(wanted.labels.requirements) + len(wanted.fields.terms)))
    for begin in range(start, len(records), step):
        if begin > start:
            await access.turns.next()
        found += filter(wanted.matches, records[begin : begin + step])
        if len(found) > limit:
            return found[:limit], 1
    return found, 0


def _check(options: ListOptions) -> None:
    if options.continue_token and parse_version(options.resource_version):
        raise bad_request("specifying resource version is not allowed when using continue")
    if not options.resource_version_match:
        return
    field = "resourceVersionMatch"
    if options.continue_token:
        problem = forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
    elif not options.resource_version:
        problem = forbidden_field(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    elif options.resource_version_match not in ("Exact", "NotOlderThan"):
        listed = 'supported values: "Exact", "NotOlderThan"'
        text = f'Unsupported value: "{options.resource_version_match}": {listed}'
        problem = FieldError("FieldValueNotSupported", field, text)
    elif options.resource_version_match == "Exact" and parse_version(options.resource_version) == 0:
        problem = forbidden_field(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    else:
        return
    raise bad_options("ListOptions", problem)


async def _revision(access: Access, options: ListOptions) -> int:
    """The revision of the list: the newest, unless another is requested with Exact."""
    asked = parse_version(options.resource_version)
    if asked > access.store.revision:
        await _wait_for(access, asked)
    return asked if options.resource_version_match == "Exact" else access.store.revision


async def _wait_for(access: Access, revision: int) -> None:
    watch = access.store.watch("", revision - 1)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async for _ in watch:
                return
    except TimeoutError:
        pass
    finally:
        watch.close()
    text = f"Too large resource version: {revision}, current: {access.store.revision}"
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    raise ApiError(504, "Timeout", f"Timeout: {text}", {**details, "retryAfterSeconds": 1})


def _at(access: Access, prefix: str, revision: int) -> Sequence[Record]:
    try:
        return access.store.scan(prefix, revision)
    except Compacted as error:
        raise expired(str(error)) from None


def _page_source(access: Access, wanted: Filter, at: int, start: str) -> tuple[Sequence[Record], int]:
    """The records at the revision of the first page, and the position of the next page."""
    first = wanted.prefix + start
    try:
        records = access.store.scan(wanted.prefix, at)
    except Compacted:
        text = (
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        raise ApiError(410, "Expired", text, metadata={"continue": _token(0, start)}) from None
    return records, bisect_left(records, first, key=_key_of)


def _key_of(record: Record) -> str:
    return record.key


def _token(revision: int, start: str) -> str:
    text = msgspec.json.encode(_Token(_TOKEN_VERSION, revision, start))
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _parse_token(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    if token.version != _TOKEN_VERSION:
        raise bad_request(
            f'continue key is not valid: server does not recognize this encoded version "{token.version}"'
        )
    return token


def get_object(access: Access, resource: Resource, name: str, namespace: str) -> Object:
    return at_version(resource, access.trees.of_record(access.record(resource, name, namespace)))


def get_encoded(access: Access, resource: Resource, name: str, namespace: str) -> bytes:
    """The same object as bytes."""
    return encoded_at_version(resource, access.record(resource, name, namespace).value)
