#!/bin/bash
# The files of a release, from the last commit: the source archive, an SBOM (SPDX 2.3), checksums and their signature.
#
#   make release [KEY=someone@example.org] [CHECK=0]        into build/release
#
# The archive has the same bytes wherever and whenever it is made of a commit; that is tried with a clone. Then its own
# `make check` runs in a chroot of Debian 12 that never saw the sources, which needs root and some minutes; CHECK=0 leaves
# that out. KEY is a key of gpg; without it nothing is signed.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C TZ=UTC
unset GZIP
out=$PWD/build/release
fail() { echo "make release: $*" >&2 && exit 1; }

version=$(sed -n 's/^#define TL_VERSION *"\(.*\)".*/\1/p' include/tidelock/tidelock.h)
name=tidelock-$version
[[ $version ]] || fail "include/tidelock/tidelock.h has no TL_VERSION"
git rev-parse -q --verify HEAD >/dev/null 2>&1 || fail "this is no clone of the repository"
[[ -z $(git rev-parse --show-prefix) ]] || fail "the clone around this directory is another project's"
[[ -z $(git status --porcelain --untracked-files=no) ]] || fail "commit your changes first: $(git status --short --untracked-files=no | head -n 3 | tr '\n' ' ')"
grep -q "^## ${version//./\\.} (20[0-9-]*)$" src/CHANGELOG.md ||
    fail "src/CHANGELOG.md has no section \"## $version (YYYY-MM-DD)\": TL_VERSION is $version"
# Now, and not after minutes: the key may have expired, or ask for a passphrase where nobody can answer.
if [[ ${KEY:-} ]]; then
    refused=$(gpg --batch --local-user "$KEY" --detach-sign </dev/null 2>&1 >/dev/null) ||
        fail "gpg does not sign as $KEY: $(tail -n 1 <<<"$refused")"
fi

# Settings of whoever runs it change neither the files nor their modes.
pack() { # repository, where
    git -C "$1" -c tar.umask=0022 -c core.autocrlf=false -c core.attributesFile=/dev/null archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$2"
}

rm -rf "$out" && mkdir -p "$out"
archive=$name.tar.gz
pack . "$out/$archive"
git clone -q --no-hardlinks . "$out/clone"
pack "$out/clone" "$out/again.tar.gz"
cmp "$out/$archive" "$out/again.tar.gz" || fail "a clone makes other bytes"
rm -rf "$out/clone" "$out/again.tar.gz"

# ---- what it is made of ---------------------------------------------------------------------------
# Nothing of others is in the archive. The libraries are those that the library links; which versions, who builds it decides.
libraries='[
    {"name": "hiredis", "why": "DEPENDS_ON", "license": "BSD-3-Clause"},
    {"name": "libuuid", "why": "DEPENDS_ON", "license": "BSD-3-Clause"},
    {"name": "openssl", "why": "OPTIONAL_DEPENDENCY_OF", "license": "Apache-2.0"},
    {"name": "jansson", "why": "OPTIONAL_DEPENDENCY_OF", "license": "MIT"},
    {"name": "libnghttp2", "why": "OPTIONAL_DEPENDENCY_OF", "license": "MIT"}]'
jq -n --argjson libraries "$libraries" --arg version "$version" --arg archive "$archive" --arg commit "$(git rev-parse HEAD)" \
    --arg sha256 "$(sha256sum "$out/$archive" | cut -d' ' -f1)" --arg when "$(date -u -d "@$(git log -1 --format=%ct)" +%FT%TZ)" '{
    spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "tidelock-\($version)",
    documentNamespace: "https://tidelock.invalid/spdx/\($version)/\($commit)",
    creationInfo: {created: $when, creators: ["Tool: tidelock-release"]},
    documentDescribes: ["SPDXRef-tidelock"],
    packages: ([{SPDXID: "SPDXRef-tidelock", name: "tidelock", versionInfo: $version, packageFileName: $archive,
        downloadLocation: "NOASSERTION", filesAnalyzed: false, licenseConcluded: "MIT", licenseDeclared: "MIT",
        copyrightText: "NOASSERTION", sourceInfo: "commit \($commit)", checksums: [{algorithm: "SHA256", checksumValue: $sha256}]}] +
        [$libraries[] | {SPDXID: "SPDXRef-\(.name)", name, downloadLocation: "NOASSERTION", filesAnalyzed: false,
        licenseConcluded: "NOASSERTION", licenseDeclared: .license, copyrightText: "NOASSERTION"}]),
    relationships: ([{spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-tidelock"}] +
        [$libraries[] | if .why == "DEPENDS_ON"
            then {spdxElementId: "SPDXRef-tidelock", relationshipType: .why, relatedSpdxElement: "SPDXRef-\(.name)"}
            else {spdxElementId: "SPDXRef-\(.name)", relationshipType: .why, relatedSpdxElement: "SPDXRef-tidelock"} end])
}' >"$out/$name.spdx.json"

# ---- does it work? ----------------------------------------------------------------------------------
if [[ ${CHECK:-1} != 0 ]]; then
    tests/packages/release.sh "$out/$archive" || fail "the archive does not pass its own tests"
fi

(cd "$out" && sha256sum "$archive" "$name.spdx.json" >SHA256SUMS)
if [[ ${KEY:-} ]]; then
    for file in "$archive" SHA256SUMS; do gpg --batch --yes --armor --local-user "$KEY" --detach-sign "$out/$file"; done
    gpg --batch --armor --export "$KEY" >"$out/tidelock-key.asc"
fi
(cd "$out/../.." && ls build/release/*)
[[ ${KEY:-} ]] || echo "make release: nothing is signed: give the key of gpg by KEY="
