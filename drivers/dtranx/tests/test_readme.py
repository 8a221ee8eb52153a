"""The program of README.md, run as it stands there."""

import contextlib
import io
import re
import unittest
from pathlib import Path

from .servers import Servers

README = Path(__file__).resolve().parent.parent / "README.md"


class Readme(unittest.TestCase):
    def test_its_program_transfers(self):
        [program] = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        with Servers() as servers, servers.client() as client:
            client.transact(lambda tranx: tranx.put(b"alice", b"30"))
            address = repr(servers.addresses[0])
            self.assertIn('("127.0.0.1", 7101)', program)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(program.replace('("127.0.0.1", 7101)', address), {})
            self.assertEqual(client.snapshot().scan(), [(b"alice", b"20"), (b"bob", b"10")])
        self.assertIn("b'bob'", said.getvalue())
