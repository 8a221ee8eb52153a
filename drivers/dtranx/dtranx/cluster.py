"""A cluster's description: the digest that identifies it, hashes of keys, addresses."""

import hashlib
import ipaddress
import struct

from .messages import V4, V6, Cluster, Hash


def hash_of(key: bytes) -> int:
    """FNV-1a with 64 bits, its halves folded together."""
    value = 0xCBF2_9CE4_8422_2325
    for byte in key:
        value = (value ^ byte) * 0x100_0000_01B3 % (1 << 64)
    return value ^ value >> 32


def map_id(cluster: Cluster) -> bytes:
    """Digest of the cluster's servers and map."""
    ids = sorted(server for server, _ in cluster.servers)
    numbers = [len(ids), *ids]
    if isinstance(cluster.partition, Hash):
        numbers += [0, *cluster.partition.servers]
    else:
        numbers.append(1)
        for key, server in cluster.partition.firsts:
            numbers += [server, len(key), *key]
    if cluster.groups:
        numbers.append(len(cluster.groups))
        for server, members in sorted(cluster.groups, key=lambda group: group[0]):
            numbers += [server, len(members)]
    return hashlib.sha256(b"".join(struct.pack("<Q", number) for number in numbers)).digest()[:16]


def addresses_of(cluster: Cluster, server: int) -> list[tuple[str, int]]:
    """Address of a server, or those of the members of a group."""
    members = dict(cluster.groups).get(server) or [dict(cluster.servers)[server]]
    return [_spelled(address) for address in members]


def _spelled(address: V4 | V6) -> tuple[str, int]:
    kind = ipaddress.IPv4Address if isinstance(address, V4) else ipaddress.IPv6Address
    return str(kind(address.octets)), address.port
