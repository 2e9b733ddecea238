#!/bin/sh
# Installs nacre for the user who runs it, without root: from a folder or a server that
# holds what a release is made of, and only what its checksums name.
#
#   install.sh [--from FOLDER-OR-URL] [--prefix DIR] [--version V] [--signers FILE] [--dry-run]
#   install.sh --uninstall [--prefix DIR]
set -eu

version=${NACRE_VERSION:-}
prefix=${HOME:-}/.local
from=
signers=
dry=
uninstall=

say() { printf '%s\n' "$*"; }
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }
value() { [ "$#" -gt 1 ] || fail "$1 needs a value; see --help"; }

while [ "$#" -gt 0 ]; do
  case $1 in
    --from) value "$@"; from=$2; shift ;;
    --prefix) value "$@"; prefix=$2; shift ;;
    --version) value "$@"; version=${2#v}; shift ;;
    --signers) value "$@"; signers=$2; shift ;;
    --dry-run) dry=yes ;;
    --uninstall) uninstall=yes ;;
    -h|--help) usage; exit 0 ;;
    *) fail "unknown: $1; see --help" ;;
  esac
  shift
done

case $prefix in /?*) ;; *) fail "the prefix $prefix is not an absolute path: use --prefix DIR" ;; esac
into=$prefix/lib/nacre

# What was installed is listed, so that nothing else is removed.
remove() {
  list=$into/.installed
  [ -f "$list" ] || fail "nothing of nacre is installed in $prefix"
  while IFS= read -r old; do
    case $old in ''|/*|*..*) fail "$list names $old, which is none of nacre's files" ;; esac
    if [ -n "$dry" ]; then say "would remove $prefix/$old"; else rm -f "$prefix/$old"; fi
  done <"$list"
  [ -n "$dry" ] && return
  rm -f "$list"
  find "$into" -depth -type d -exec rmdir {} + 2>/dev/null || true
}
if [ -n "$uninstall" ]; then remove; [ -n "$dry" ] || say "nacre is removed from $prefix. What it keeps of you is in ~/.config/nacre and ~/.local/state/nacre."; exit 0; fi

[ -n "$version" ] || fail "say which version: --version 1.2.0"
[ "$(uname -s)" = Linux ] || fail "only Linux has what nacre needs by itself; for macOS, unpack nacre_${version}_darwin_ARCH.tar.gz: docs/install.md says what it needs there"
case $(uname -m) in
  x86_64|amd64) arch=amd64 ;;
  aarch64|arm64) arch=arm64 ;;
  *) fail "there is no release for $(uname -m): build it with go install github.com/nacre-dev/nacre/cmd/...@latest" ;;
esac
from=${from:-https://github.com/nacre-dev/nacre/releases/download/v$version}
name=nacre_${version}_linux_$arch

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# fetch takes one file of the release, over TLS or from a folder.
fetch() {
  case $from in
    https://*)
      if command -v curl >/dev/null; then curl -fsSL --proto '=https' --tlsv1.2 -o "$work/$1" "$from/$1"
      elif command -v wget >/dev/null; then wget -q -O "$work/$1" "$from/$1"
      else fail "curl or wget is needed to fetch $from/$1"; fi ;;
    http://*) fail "$from is not encrypted: use https" ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "$from/$1 cannot be fetched"
}
fetch checksums.txt
if [ -n "$signers" ]; then # who may sign a release, by a file that did not come with it
  command -v ssh-keygen >/dev/null || fail "ssh-keygen is needed to verify the signature: install OpenSSH"
  fetch checksums.txt.sig
  ssh-keygen -q -Y verify -f "$signers" -I nacre -n nacre-release -s "$work/checksums.txt.sig" <"$work/checksums.txt" >/dev/null 2>&1 ||
    fail "checksums.txt is not signed by a key that $signers names: nothing is installed"
fi
fetch "$name.tar.gz"
want=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$work/checksums.txt")
[ -n "$want" ] || fail "checksums.txt does not name $name.tar.gz"
have=$(sha256sum "$work/$name.tar.gz" | cut -d' ' -f1)
[ "$have" = "$want" ] || fail "$name.tar.gz has the checksum $have, and checksums.txt says $want: nothing is installed"

tar -xzf "$work/$name.tar.gz" -C "$work"
(cd "$work/$name" && find . ! -type d | sed 's|^\./||' | sort) >"$work/list"
if [ -n "$dry" ]; then
  sed "s|^|would write $prefix/|" "$work/list"
  exit 0
fi
# Everything is written beside what is there before anything of that is touched: where the disk is full, nothing changes.
unfinished() {
  while IFS= read -r file; do rm -f "$prefix/$file.new"; done <"$work/list"
  rm -rf "$work" "$into/.new"
}
trap unfinished EXIT
while IFS= read -r file; do
  mkdir -p "$prefix/$(dirname "$file")" && case $file in
    *.service) sed "s|/usr/bin/nacre|$prefix/bin/nacre|" "$work/$name/$file" >"$prefix/$file.new" ;;
    *) cp -P "$work/$name/$file" "$prefix/$file.new" ;;
  esac || fail "$prefix/$file cannot be written: nothing is installed"
done <"$work/list"
cp "$work/list" "$into/.new" || fail "$into cannot be written: nothing is installed"
[ ! -f "$into/.installed" ] || remove
mv -f "$into/.new" "$into/.installed"
while IFS= read -r file; do
  mv -f "$prefix/$file.new" "$prefix/$file" || fail "$prefix/$file cannot be written"
done <"$work/list"
say "nacre $version is installed: $prefix/bin/nacre"
case :${PATH:-}: in *:"$prefix/bin":*) ;; *) say "$prefix/bin is not in your PATH: add it." ;; esac
say "Next: nacre setup, in the folder of a project"
