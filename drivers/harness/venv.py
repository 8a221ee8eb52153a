"""A Python environment with what a requirements file lists, made once."""

import shutil
import sys
from pathlib import Path

from .processes import must_run

LIMIT_S = 300


def with_requirements(requirements: Path, cache: Path, log: Path) -> Path:
    """The environment's interpreter. It is made anew when the file has changed."""
    venv, done = cache / "venv", cache / "venv.done"
    wanted = f"{sys.version}\n{requirements.read_text(encoding='utf-8')}"
    python = venv / "bin" / "python"
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        must_run([sys.executable, "-m", "venv", venv], LIMIT_S, log)
        must_run([python, "-m", "pip", "install", "-q", "-r", requirements], LIMIT_S, log)
        done.write_text(wanted, encoding="utf-8")
    return python
