"""Programs that commands of the book find instead of those that they name.

`mongotx` is the binary that is tried, with addresses that are free where a command leaves the
defaults. `cargo run` runs it, too. `sudo` runs its command as the user who runs everything.
`mongodump` and `mongorestore` are MongoDB's: they only take the options that they have.
"""

from pathlib import Path

MONGOTX = """#!/bin/sh
if [ "$1" = serve ]; then
    echo $$ > "{pid}"
    case " $* " in *" --listen "* | *" --config "*) ;; *) set -- "$@" --listen {listen} ;; esac
    case " $* " in *" --uri "* | *" --config "*) ;; *) set -- "$@" --uri mongodb://{unused} ;; esac
fi
exec "{mongotx}" "$@"
"""

CARGO = """#!/bin/sh
case "$*" in
"run --release -p mongotx-cli -- "*) shift 5 ;;
*) echo "cargo: these words are not expected: $*" >&2; exit 2 ;;
esac
exec mongotx "$@"
"""

SUDO = """#!/bin/sh
[ "$1" = -u ] || exit 2
shift 2
exec "$@"
"""

DUMP = """#!/bin/sh
case "$*" in "--uri mongodb://"*" --db "*" --out "*) ;; *) echo "$0: $*" >&2; exit 2 ;; esac
"""

RESTORE = """#!/bin/sh
case "$*" in "--uri mongodb://"*" dump") ;; *) echo "$0: $*" >&2; exit 2 ;; esac
"""


def write(folder: Path, **places: object) -> None:
    """Writes them into `folder`. `places`: what is between braces in `MONGOTX`."""
    folder.mkdir()
    texts = {"mongotx": MONGOTX.format(**places), "cargo": CARGO, "sudo": SUDO, "mongodump": DUMP, "mongorestore": RESTORE}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
