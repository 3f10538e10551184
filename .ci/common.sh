# Sourced by the scripts beside it: how a step is announced and a tool is installed.

step() { # step TITLE: announces what runs next, with the seconds since the start
    printf '\n=== %s (%s s)\n' "$1" "$SECONDS"
}

# Tools that these scripts install are kept, separate from the project's crates.
tools="${SVC_CI_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/svc-ci}"
mkdir -p "$tools"
export PATH="$tools/bin:$PATH" CARGO_TERM_COLOR=never

tool() { # tool COMMAND CRATE [OPTION…]: installs a cargo tool once
    local command=$1
    shift

    if ! command -v "$command" >/dev/null; then
        cargo install --quiet --locked --debug --root "$tools" "$@"
    fi
}

debian() { # debian PACKAGE…: installs packages of Debian
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}
