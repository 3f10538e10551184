#!/bin/sh
# Installs svc @VERSION@ below ~/.local, or below /usr/local as root.
#
#   PREFIX=DIR       install below another folder
#   RELEASE=WHERE    take the release from a URL, or from a folder with its files
set -eu

name=svc-@VERSION@-x86_64-linux
release=${RELEASE:-https://github.com/svc-tools/svc/releases/download/v@VERSION@}

main() {
    check_platform
    choose_prefix
    case $release in
    *://*) ;;
    *) release=$(absolute "$release") ;;
    esac

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"

    download
    install_files
    echo "installed $version in $prefix/bin"
    show_path_hint
}

check_platform() {
    platform=$(uname -sm)
    if [ "$platform" != "Linux x86_64" ]; then
        fail "this is for Linux on x86-64, not for $platform: use cargo install svc-cli"
    fi
}

choose_prefix() {
    if [ -n "${PREFIX:-}" ]; then
        prefix=$(absolute "$PREFIX")
    elif [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    else
        prefix=${HOME:?set HOME or PREFIX}/.local
    fi
}

absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
    esac
}

# Downloads and checks the archive. Nothing is installed if its sum is wrong, or svc does not run here.
download() {
    fetch SHA256SUMS
    fetch "$name.tar.gz"
    if ! grep " $name.tar.gz\$" SHA256SUMS | sha256sum -c >/dev/null; then
        fail "$name.tar.gz does not have the sum in SHA256SUMS: nothing was installed"
    fi

    tar -xzf "$name.tar.gz"
    if ! version=$("$name/bin/svc" version); then
        fail "svc does not run here, it needs glibc 2.17 or newer: nothing was installed"
    fi
}

fetch() {
    case $release in
    https://*) fetch_url "$1" ;;
    *://*) fail "RELEASE is $release: only https is allowed" ;;
    *) cp "$release/$1" "$1" ;;
    esac || fail "cannot fetch $release/$1"
}

fetch_url() {
    if command -v curl >/dev/null; then
        curl --proto =https --tlsv1.2 -fsSL -o "$1" "$release/$1"
    elif command -v wget >/dev/null; then
        # wget follows a redirect to http, unless it follows none; the sums would come that way.
        wget --https-only -q -O "$1" "$release/$1"
    else
        fail "install curl or wget, or download the files and set RELEASE to their folder"
    fi
}

# A running svc keeps its file, and the old one stays until the new one is complete. In a folder that
# others can write to, a name that they know could be a link to another file.
install_files() {
    if ! mkdir -p "$prefix/bin" || [ ! -w "$prefix" ]; then
        refuse_prefix
    fi

    new=$(mktemp "$prefix/bin/.svc.XXXXXX") || refuse_prefix
    if ! copy_files; then
        rm -f "$new"
        refuse_prefix
    fi
}

copy_files() {
    cp -R "$name/share" "$prefix" &&
        cp "$name/bin/svc" "$new" &&
        chmod 755 "$new" &&
        mv -f "$new" "$prefix/bin/svc"
}

refuse_prefix() {
    fail "cannot write to $prefix: set PREFIX"
}

show_path_hint() {
    case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "add it to the PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

# On the last line, so that nothing runs if only a part of this file has arrived.
main
