"""The way from pods to the API server: in tier net through the gateway, where nothing else of this machine is.

    pod ── 100.64.0.1:443 ──► relay (a socket of the holder) ──► the server, on this machine

The address is the same after a restart of Echelon, so pods that outlive it find the server again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ..machine import ChosenTier
from ..pod_network import GATEWAY, PodNetwork

log = logging.getLogger(__name__)

_PORT = 443
_LOOK_SECONDS = 2.0
_PIECE = 1 << 16


class ApiRelay:
    """`environment` tells containers where the server is; `run` makes it true."""

    def __init__(self, network: PodNetwork, chosen: ChosenTier, server: tuple[str, int]) -> None:
        self._network = network
        self._needed = chosen.tier == "net"
        self._server = server

    @property
    def environment(self) -> dict[str, str]:
        host, port = (GATEWAY, _PORT) if self._needed else self._server
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
        }

    async def run(self) -> None:
        """Until cancelled."""
        served: asyncio.Server | None = None
        holder = 0
        try:
            while self._needed:
                # A new holder has a new network.
                if served is None or self._network.holder != holder:
                    served = await self._listen(served)
                    holder = self._network.holder
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if served is not None:
                served.close()

    async def _listen(self, before: asyncio.Server | None) -> asyncio.Server | None:
        if before is not None:
            before.close()
        try:
            return await asyncio.start_server(self._relay, sock=await self._network.listen(GATEWAY, _PORT))
        except OSError as error:
            log.warning("pods do not reach the API server: %s", error)
            return None

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, onward = await asyncio.open_connection(*self._server)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_copy(reader, onward))
                    both.create_task(_copy(there, writer))
            finally:
                onward.close()
        writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
        target.write_eof()
