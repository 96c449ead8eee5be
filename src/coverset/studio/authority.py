"""Host names and ports out of the headers Host and Origin, by a grammar that leaves no room for interpretation."""

import ipaddress
import re
from typing import NamedTuple

LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
AUTHORITY = re.compile(rf"({LABEL}(?:\.{LABEL})*|\[[0-9A-Fa-f:.]+\])(?::([1-9][0-9]{{0,4}}))?")
"""A name without a final dot, or an IPv6 address in brackets; then a port without leading zeros, or none."""
LARGEST_PORT = 65535


class Authority(NamedTuple):
    """Where a request is addressed to, or a page comes from."""

    name: str
    """In lower case; IPv6 addresses keep their brackets."""
    port: int | None
    """None where it is the default of the scheme."""


def parse_authority(value: str) -> Authority | None:
    """`name` or `name:port`; None for anything else, such as user names, spaces, lists, final dots and odd ports."""
    found = AUTHORITY.fullmatch(value)
    if found is None:
        return None
    name, digits = found.groups()
    if digits is not None and int(digits) > LARGEST_PORT:
        return None
    return Authority(name.lower(), None if digits is None else int(digits))


def parse_origin(value: str) -> Authority | None:
    """The authority of `http://name:port` or `https://name:port`; None for anything else, such as `null`."""
    scheme, _, rest = value.partition("://")
    return parse_authority(rest) if scheme in ("http", "https") else None


def is_address(name: str) -> bool:
    """Whether an authority's name is an IP address in digits, which no name server can point elsewhere."""
    try:
        if name.startswith("["):
            ipaddress.IPv6Address(name[1:-1])
        else:
            ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True
