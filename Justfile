# The commands that a contributor needs. `just` lists them.

_list:
    @just --list --unsorted

# Builds and tests everything that needs only Rust and a C compiler
test *FILTER:
    cargo nextest run --workspace {{FILTER}}
    cargo test --workspace --doc

# Checks format and lints
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

# Runs all checks that a change must pass, or only parts: just ci lints databases
ci *PARTS:
    .ci/run {{PARTS}}

# Measures the server
bench *ARGS:
    cargo bench -p svc-reference-server -- {{ARGS}}

# Builds the book into target/book
book:
    SVC_BOOK={{justfile_directory()}}/target/book-source cargo test -p svc-cli --test it reference
    mdbook build target/book-source --dest-dir ../book
