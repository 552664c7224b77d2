"""DELETE of a collection: the selected objects, several at a time, so that their writes are committed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ...api.errors import ApiError
from ...api.scheme import Object, Resource
from ...api.verbs import DeleteOptions, ListOptions
from ...store.interface import Record
from ..objects.encoded import EncodedList, encode_object
from ..objects.stored_objects import Access
from . import read
from .delete import delete

_WORKERS = 64


async def delete_collection(
    access: Access, resource: Resource, namespace: str, which: ListOptions, options: DeleteOptions
) -> EncodedList:
    """The last state of each deleted object; objects that others delete meanwhile are skipped.

    The first other error ends it and is raised; what is deleted by then stays deleted.
    """
    page = await read.select_page(access, resource, namespace, which)
    # Bytes instead of trees, which are several times as large.
    deleted: list[bytes] = [b""] * len(page.records)
    rest = enumerate(page.records)
    async with asyncio.TaskGroup() as group:
        working = [
            group.create_task(_work(access, resource, rest, options, deleted))
            for _ in range(min(_WORKERS, len(page.records)))
        ]
    for worker in working:
        if (error := worker.result()) is not None:
            raise error
    values = [value for value in deleted if value]
    return EncodedList(values, str(page.revision), page.continue_token, page.remaining)


async def _work(
    access: Access,
    resource: Resource,
    rest: Iterator[tuple[int, Record]],
    options: DeleteOptions,
    deleted: list[bytes],
) -> ApiError | None:
    """Delete one of the rest after the other; returns the error that ended it, for all workers."""
    for position, record in rest:
        namespace, name = _name(resource, record.key)
        try:
            last: Object = await delete(access, resource, name, namespace, options)
        except ApiError as error:
            if error.code == 404:
                continue
            # The other workers find nothing left to do.
            for _ in rest:
                pass
            return error
        deleted[position] = encode_object(last)
    return None


def _name(resource: Resource, key: str) -> tuple[str, str]:
    """Namespace and name of a key."""
    namespace, _, name = key.removeprefix(resource.prefix).rpartition("/")
    return namespace, name
