"""Tests that code without a source, and code that differs from it, are found. `docs/code` runs this
first."""

import tempfile
import unittest
from pathlib import Path

from .blocks import blocks
from .sources import Sources

PROGRAM = "import a\n\ndef run():\n    if a:\n        first()\n\n        second()\n"
FILES = {
    "drivers/harness/examples.py": 'Example("Python", [interpreter, "guide.py"])\n',
    "drivers/python/guide.py": PROGRAM,
    "drivers/python/idle.py": PROGRAM,
    "crates/mongotx/src/book.rs": 'Readme: "README.md",\n',
    ".ci/run": "nice -n 19 cargo test --workspace || exit 1\n",
    "packages/python/tests/test_readme.py": 'PAGE = "README.md"\n',
}


class Marks(unittest.TestCase):
    def setUp(self):
        outside = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        (outside / "a.py").write_text("a\n", encoding="utf-8")
        self.root = outside / "repository"
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")

    def wrong(self, text: str, page: str = "docs/guide/a.md") -> str | None:
        [block] = blocks(page, text)
        return Sources(self.root).wrong_with(block)

    def test_a_part_of_a_file_is_right(self):
        for code in ["first()\n\nsecond()", "if a:\n    first()", "import a"]:
            self.assertIsNone(self.wrong(f"<!-- from drivers/python/guide.py -->\n\n```python\n{code}\n```\n"), code)

    def test_code_that_differs_is_named_by_its_line(self):
        for code, line in [("first()\nsecond()", "second()"), ("if a:\nfirst()", "first()"), ("third()", "third()"), ("first()\n\nsecond()\n\nthird()", "third()")]:
            said = self.wrong(f"<!-- from drivers/python/guide.py -->\n```python\n{code}\n```\n")
            self.assertEqual(said, f"drivers/python/guide.py has no {line!r} there")

    def test_a_program_without_a_source_is_wrong_on_every_page(self):
        for page in ["docs/gateway.md", "docs/guide/a.md", "packages/node/README.md"]:
            self.assertIn("nothing says", self.wrong("Words.\n\n```js\nrun()\n```\n", page) or "", page)

    def test_commands_need_a_source_on_the_strict_pages_only(self):
        shell = "```sh\nrun\n```\n"
        self.assertIn("nothing says", self.wrong(shell) or "")
        self.assertIn("nothing says", self.wrong(shell, "README.md") or "")
        self.assertIsNone(self.wrong(shell, "docs/backup.md"))
        self.assertIsNone(self.wrong("```text\nrun\n```\n"))

    def test_a_mark_counts_for_the_next_block_only(self):
        first, second = blocks("README.md", "<!-- not run: for two\nlines -->\n```js\na()\n```\n\n```js\nb()\n```\n")
        self.assertEqual(first.mark, ("not run:", "for two lines"))
        self.assertIsNone(second.mark)
        [apart] = blocks("README.md", "<!-- from drivers/python/guide.py -->\n\nWords.\n\n```js\na()\n```\n")
        self.assertIsNone(apart.mark)

    def test_a_reason_has_to_be_given(self):
        self.assertIn("nothing says", self.wrong("<!-- not run: -->\n```js\na()\n```\n") or "")

    def test_a_file_that_nothing_runs_is_no_source(self):
        for file in ["drivers/python/idle.py", "packages/python/tests/test_readme.py"]:
            said = self.wrong(f"<!-- from {file} -->\n```python\nimport a\n```\n")
            self.assertEqual(said, f"drivers/harness does not run {file}")
        self.assertEqual(self.wrong("<!-- from ../a.py -->\n```python\na\n```\n"), "there is no ../a.py")

    def test_commands_may_stand_among_other_words_of_the_gate(self):
        mark = "<!-- from .ci/run -->\n"
        self.assertIsNone(self.wrong(f"{mark}```sh\ncargo test --workspace   # all\n```\n"))
        self.assertIn("--all", self.wrong(f"{mark}```sh\ncargo test --all\n```\n") or "")
        self.assertIn("work", self.wrong(f"{mark}```sh\ncargo test --work\n```\n") or "")

    def test_a_runner_reads_the_page(self):
        mark = "<!-- run by packages/python/tests/test_readme.py -->\n```python\na\n```\n"
        self.assertIsNone(self.wrong(mark, "packages/python/README.md"))
        self.assertIn("does not read a.md", self.wrong(mark) or "")
        self.assertIn("there is no b.py", self.wrong("<!-- run by b.py -->\n```python\na\n```\n") or "")

    def test_rust_on_strict_pages_has_to_be_a_doctest(self):
        self.assertIsNone(self.wrong("```rust,no_run\na()\n```\n", "README.md"))
        for page, told in [("README.md", "rust,ignore"), ("docs/guide/a.md", "rust")]:
            self.assertIn("no doctest", self.wrong(f"```{told}\na()\n```\n", page) or "")
        self.assertIsNone(self.wrong("```rust,ignore\na()\n```\n", "docs/workbench.md"))
