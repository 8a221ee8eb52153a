# Short names for what README.md, CONTRIBUTING.md and `.ci/run` say; none of them needs `just`.

_list:
    @"{{ just_executable() }}" --list --unsorted

# what is wrong without running a test: format, clippy, rustdoc, dependencies
check:
    cargo fmt --all --check
    .ci/columns
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
    .ci/dependencies

# formats, wraps pages and comments, and applies what clippy suggests
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all
    .ci/columns --fix

# all tests, or those of one crate: `just test -p mongotx --test it -- smoke`
test *arguments="--workspace":
    cargo test {{ arguments }}

# everything that has to pass
gate:
    .ci/run

# licences, sources, duplicates and known advisories; fetches the advisories
advisories:
    .ci/dependencies --advisories

# writes the public interface of each published crate to crates/*/api.txt, for `git diff`
api:
    .ci/api --write

# every measurement of the page of results, and the page; on a machine that does nothing else
results minutes="25":
    cargo build --release -p mongotx-bench -p dtranx-bench
    target/release/mongotx-bench results --minutes {{ minutes }}

# compiles everything with the oldest Rust that is promised
oldest:
    cargo +1.90 check --workspace --all-targets --locked

# one target of fuzz/README.md with libFuzzer
fuzz target seconds="60":
    cargo +nightly fuzz run {{ target }} -- -max_total_time={{ seconds }} -max_len=4096
