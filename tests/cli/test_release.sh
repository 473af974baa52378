#!/bin/bash
# What `make release` makes of a commit has the same bytes whoever makes it and wherever; it is signed, or the reason why
# not comes before the work.
. "$(dirname "$0")/lib.sh"
for command in git gpg jq; do
    command -v $command >/dev/null || { echo "$command is not installed" && exit 77; }
done

# A small repository that has what the program reads.
tree=$work/tree name=tidelock-1.2.3
export HOME=$work/home GNUPGHOME=$work/keys CHECK=0
unset XDG_CONFIG_HOME
mkdir -p "$HOME" "$tree/tools/packaging" "$tree/include/tidelock" "$tree/src"
git config --global user.name Someone
git config --global user.email someone@example.org
cp "$here/tools/packaging/release.sh" "$tree/tools/packaging/"
printf '#define TL_VERSION "1.2.3"\n' >"$tree/include/tidelock/tidelock.h"
seq 20000 >"$tree/src/numbers"
printf '## 1.2.3 (2026-01-01)\n' >"$tree/src/CHANGELOG.md"
echo /build >"$tree/.gitignore"
git init -q "$tree"
git -C "$tree" add -A
git -C "$tree" commit -q -m release

release() { "${1:-$tree}/tools/packaging/release.sh" >"$out" 2>"$err"; }
refused() { # what it says
    if release; then fail "a release is made, though: $1"; fi
    grep -q "$1" "$err" || fail "it says nothing of: $1"
}
same() { # how it is made, tree
    release "${2:-$tree}" || fail "$1: $(cat "$out")"
    sum=$(cat "${2:-$tree}/build/release/SHA256SUMS")
    [[ $sum == "${first:=$sum}" ]] || fail "$1: other bytes"
}

same "the first time"
jq -e '.packages[0].checksums[0].checksumValue' "$tree/build/release/$name.spdx.json" | grep -q "$(cut -c1-64 <<<"$first")" ||
    fail "the SBOM is of another archive"
tar -tvf "$tree/build/release/$name.tar.gz" | grep -q -- '^-rwxr-xr-x root/root .*/release.sh$' || fail "modes or owners are not plain"

# ---- whoever makes it ---------------------------------------------------------------------------------
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 GZIP=--rsyncable same "another's environment") || exit 1
git config --global tar.umask user
git config --global core.autocrlf true
git config --global core.attributesFile "$HOME/attributes"
echo '*.h export-ignore' >"$HOME/attributes"
(umask 077 && same "another's settings of git") || exit 1
touch "$tree/new"
same "a file that git doesn't know"
git -c core.autocrlf=false clone -q --depth 1 "file://$tree" "$work/other tree"
git -C "$work/other tree" checkout -q --detach
same "a shallow clone elsewhere" "$work/other tree"
rm "$HOME/.gitconfig" "$tree/new"

# ---- what is no commit of its own -----------------------------------------------------------------------
echo >>"$tree/src/CHANGELOG.md"
refused "commit your changes first: "
git -C "$tree" checkout -q src
mkdir "$work/outer" && cp -r "$tree" "$work/outer/tree" && rm -rf "$work/outer/tree/.git"
git init -q "$work/outer"
git -C "$work/outer" -c user.name=Someone -c user.email=someone@example.org commit -q --allow-empty -m other
tree=$work/outer/tree refused "the clone around this directory is another project"

# ---- the signature ----------------------------------------------------------------------------------------
mkdir -m 700 "$GNUPGHOME"
key() { # whose, passphrase, until when
    gpg -q --batch --pinentry-mode loopback --passphrase "$2" --quick-gen-key "$1@example.org" ed25519 sign "$3" 2>"$err" || fail "gpg makes no key"
}
key valid '' never
key asks secret never
gpg -q --batch --faked-system-time 20200101T000000 --pinentry-mode loopback --passphrase '' --quick-gen-key expired@example.org ed25519 sign 1d 2>"$err" ||
    fail "gpg makes no key"
gpgconf --kill gpg-agent # it knows the passphrase still
for whose in nobody expired asks; do
    rm -rf "$tree/build"
    KEY=$whose@example.org refused "gpg does not sign as $whose@example.org: "
    [[ ! -e $tree/build ]] || fail "it begins, though $whose cannot sign"
done
KEY=valid@example.org release || fail "a key that signs: $(cat "$out")"
for file in $name.tar.gz SHA256SUMS; do
    gpg -q --verify "$tree/build/release/$file.asc" "$tree/build/release/$file" 2>"$err" || fail "the signature of $file"
done
gpgconf --kill gpg-agent

# Who has nothing but the files types what SECURITY.md says.
sed -n '/^gpg --import/,/^```/{ /^```/!p; }' "$here/.github/SECURITY.md" >"$work/verify"
(($(wc -l <"$work/verify") == 2)) || fail "SECURITY.md says: $(cat "$work/verify")"
mkdir -m 700 "$work/stranger"
(cd "$tree/build/release" && GNUPGHOME=$work/stranger bash -e "$work/verify") >"$out" 2>&1 || fail "it is not verified: $(cat "$out")"
fingerprint=$(gpg -q --with-colons --fingerprint valid@example.org | sed -n 's/^fpr:*\([0-9A-F]*\):$/\1/p' | head -n 1)
grep '^Primary key fingerprint: ' "$out" | tr -d ' ' | grep -q ":$fingerprint$" || fail "the fingerprint isn't $fingerprint: $(cat "$out")"
GNUPGHOME=$work/stranger gpgconf --kill gpg-agent
