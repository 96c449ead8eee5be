"""Parse host names and ports of the Host and Origin headers by a strict grammar."""

import ipaddress
import re
from typing import NamedTuple

LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
AUTHORITY = re.compile(rf"({LABEL}(?:\.{LABEL})*|\[[0-9A-Fa-f:.]+\])(?::([1-9][0-9]{{0,4}}))?")
"""A name without a trailing dot or an IPv6 address in brackets; then optionally a port without leading zeros."""
LARGEST_PORT = 65535


class Authority(NamedTuple):
    """The host that a request is addressed to, or that a page comes from."""

    name: str
    """Lower case; IPv6 addresses keep their brackets."""
    port: int | None
    """None for the default port of the scheme."""


def parse_authority(value: str) -> Authority | None:
    """Parse `name` or `name:port`; None for anything else, such as user names, spaces, lists and trailing dots."""
    found = AUTHORITY.fullmatch(value)
    if found is None:
        return None
    name, digits = found.groups()
    if digits is not None and int(digits) > LARGEST_PORT:
        return None
    return Authority(name.lower(), None if digits is None else int(digits))


def parse_origin(value: str) -> Authority | None:
    """Parse the authority of `http://name:port` or `https://name:port`; None for anything else, such as `null`."""
    scheme, _, rest = value.partition("://")
    return parse_authority(rest) if scheme in ("http", "https") else None


def is_address(name: str) -> bool:
    """Whether an authority's name is a numeric IP address, which DNS cannot redirect."""
    try:
        if name.startswith("["):
            ipaddress.IPv6Address(name[1:-1])
        else:
            ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True
