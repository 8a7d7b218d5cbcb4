"""Where a device can be reached, as values."""

from __future__ import annotations

import ipaddress
import socket

import msgspec
import psutil

from app.core.errors import ErrorCode, ExpectedError
from app.sync.channel import ChannelPath

_MAX_HOST_LENGTH = 253


class Address(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A host name or IP address (without brackets) and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that a person typed; raises ``ExpectedError`` bad-setting that says how to type one."""
    host, _, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not _is_host(host) or not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise ExpectedError(
            ErrorCode.BAD_SETTING,
            f"“{text}” is not an address; type a name or number and a port, such as 192.168.1.20:45001, "
            "[fe80::1]:45001 or films.example.org:45001.",
        )
    return Address(host=host, port=int(port))


def _is_host(host: str) -> bool:
    return 0 < len(host) <= _MAX_HOST_LENGTH and host.isprintable() and not any(one in host for one in " /@#?[]\\")


def own_hosts() -> tuple[str, ...]:
    """Return this machine's addresses, loopback left out, as they are on the wire: without zones."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = (one for interface in psutil.net_if_addrs().values() for one in interface if one.family in families)
    hosts = dict.fromkeys(one.address.partition("%")[0] for one in found)
    return tuple(host for host in hosts if not ipaddress.ip_address(host).is_loopback)


def path_of(host: str) -> ChannelPath:
    """Return how a peer at this IP address is reached: within the local network, or beyond it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "direct"
    mapped = getattr(address, "ipv4_mapped", None)
    return "lan" if (mapped or address).is_private else "direct"
