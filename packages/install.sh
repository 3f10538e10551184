#!/bin/sh
# Installs svc @VERSION@ below ~/.local, or below /usr/local as root. PREFIX names another folder.
# RELEASE is where the release is: a URL, or a folder with its files.
set -eu

# Runs only if it has arrived as a whole.
{
name=svc-@VERSION@-x86_64-linux
release=${RELEASE:-https://github.com/svc-tools/svc/releases/download/v@VERSION@}
if [ "$(id -u)" = 0 ]; then prefix=${PREFIX:-/usr/local}; else prefix=${PREFIX:-${HOME:?set HOME or PREFIX}/.local}; fi

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

[ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "this is for Linux on x86-64, and here is $(uname -sm): use cargo install svc-cli"

fetch() {
    case $release in
    https://*)
        if command -v curl >/dev/null; then
            curl --proto =https --tlsv1.2 -fsSL -o "$1" "$release/$1"
        elif command -v wget >/dev/null; then
            # wget follows a redirect to http, unless it follows none; the sums would come that way.
            wget --https-only -q -O "$1" "$release/$1"
        else
            fail "install curl or wget, or download the files and set RELEASE to their folder"
        fi
        ;;
    *://*) fail "RELEASE is $release: only https is allowed" ;;
    *) cp "$release/$1" "$1" ;;
    esac || fail "cannot fetch $release/$1"
}

case $release in *://* | /*) ;; *) release=$PWD/$release ;; esac
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fetch SHA256SUMS
fetch "$name.tar.gz"
grep " $name.tar.gz\$" SHA256SUMS | sha256sum -c >/dev/null ||
    fail "$name.tar.gz does not have the sum in SHA256SUMS: nothing was installed"
tar -xzf "$name.tar.gz"
version=$("$name/bin/svc" version) || fail "svc does not run here, it needs glibc 2.17 or newer: nothing was installed"
mkdir -p "$prefix/bin" && [ -w "$prefix" ] || fail "cannot write to $prefix: set PREFIX"
# A running svc keeps its file, and the old one stays until the new one is complete. In a folder that
# others can write to, a name that they know could be a link to another file.
new=$(mktemp "$prefix/bin/.svc.XXXXXX") || fail "cannot write to $prefix: set PREFIX"
cp -R "$name/share" "$prefix" && cp "$name/bin/svc" "$new" && chmod 755 "$new" && mv -f "$new" "$prefix/bin/svc" ||
    { rm -f "$new"; fail "cannot write to $prefix: set PREFIX"; }
echo "installed $version in $prefix/bin"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "add it to the PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
}
