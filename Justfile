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

# Kills, outages and random histories, ROUNDS times as long as in CI
chaos ROUNDS="10":
    SVC_CHAOS={{ROUNDS}} SVC_BULK_ROUNDS={{ROUNDS}}0 SVC_BULK_HISTORIES={{ROUNDS}}000 SVC_CRASH_ROUNDS={{ROUNDS}}00 \
        SVC_TEST_POSTGRES=1 cargo test --workspace --test it -- --include-ignored --skip server_process \
        killed outages outlive crash failover half_open no_history bulk:: no_confirmed_write redis

# Measures the server
bench *ARGS:
    cargo bench -p svc-reference-server -- {{ARGS}}

# Builds the book into target/book
book:
    SVC_BOOK={{justfile_directory()}}/target/book-source cargo test -p svc-cli --test it reference
    mdbook build target/book-source --dest-dir ../book
