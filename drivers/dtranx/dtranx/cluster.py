"""A cluster's description: what identifies it, servers that join, hashes of keys, addresses."""

import hashlib
import ipaddress
import struct
from dataclasses import replace

from .messages import V4, V6, Cluster, Hash, MapId


def hash_of(key: bytes) -> int:
    """FNV-1a with 64 bits, its halves folded together."""
    value = 0xCBF2_9CE4_8422_2325
    for byte in key:
        value = (value ^ byte) * 0x100_0000_01B3 % (1 << 64)
    return value ^ value >> 32


def map_id(cluster: Cluster) -> MapId:
    """The cluster's servers, and a digest of its map."""
    members = {server: len(addresses) for server, addresses in cluster.groups}
    if isinstance(cluster.partition, Hash):
        numbers = [0, *cluster.partition.servers]
    else:
        numbers = [1]
        for key, server in cluster.partition.firsts:
            numbers += [server, len(key), *key]
    digest = hashlib.sha256(b"".join(struct.pack("<Q", number) for number in numbers)).digest()[:16]
    return MapId([(server, members.get(server, 0)) for server, _ in cluster.servers], digest)


def configured(cluster: Cluster) -> set[int]:
    """The servers that hold keys as the cluster is configured."""
    if isinstance(cluster.partition, Hash):
        return set(cluster.partition.servers)
    return {server for _, server in cluster.partition.firsts}


def extended(known: Cluster, described: Cluster) -> Cluster:
    """What is known, and the servers that another description of the same cluster has besides: they
    have joined. Addresses that are known stay."""
    if (known.name, known.partition) != (described.name, described.partition):
        return known
    ids = {server for server, _ in known.servers}
    joined = [(server, address) for server, address in described.servers if server not in ids]
    return replace(known, servers=[*known.servers, *joined])


def addresses_of(cluster: Cluster, server: int) -> list[tuple[str, int]]:
    """Address of a server, or those of the members of a group."""
    members = dict(cluster.groups).get(server) or [dict(cluster.servers)[server]]
    return [_spelled(address) for address in members]


def _spelled(address: V4 | V6) -> tuple[str, int]:
    kind = ipaddress.IPv4Address if isinstance(address, V4) else ipaddress.IPv6Address
    return str(kind(address.octets)), address.port
