"""What the HTTPS face needs to know before it starts: read once, frozen."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerSettings:
    #: Where certificates, keys and the admin token live; made if missing.
    directory: Path
    #: Loopback only: whoever has the token rules the cluster.
    host: str = "127.0.0.1"
    #: 0 takes any free port.
    port: int = 0

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(f"the server listens on loopback addresses only, not on {self.host}")
