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
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL -o "$1" "$release/$1"
        elif command -v wget >/dev/null; then
            wget -q -O "$1" "$release/$1"
        else
            fail "install curl or wget, or download the files and set RELEASE to their folder"
        fi
        ;;
    *) cp "$release/$1" "$1" ;;
    esac || fail "cannot fetch $release/$1"
}

case $release in http*://* | /*) ;; *) release=$PWD/$release ;; esac
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
# A running svc keeps its file, and the old one stays until the new one is complete.
cp -R "$name/share" "$prefix" && cp "$name/bin/svc" "$prefix/bin/svc.new" && mv -f "$prefix/bin/svc.new" "$prefix/bin/svc" ||
    { rm -f "$prefix/bin/svc.new"; fail "cannot write to $prefix: set PREFIX"; }
echo "installed $version in $prefix/bin"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "add it to the PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
}
