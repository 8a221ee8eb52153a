"""ACID transactions on MongoDB servers that have none.

`gateway` starts a gateway in front of a server; `local` starts a server, too, for tests. Both
answer the connection string that PyMongo and its relatives take:

    with mongotx.local() as uri:
        client = pymongo.MongoClient(uri)

What they start ends with the block, and with this process, however that ends.
"""

from ._binary import binary
from ._processes import MongoTxError, gateway, local

__all__ = ["MongoTxError", "binary", "gateway", "local"]
__version__ = "0.1.0"
