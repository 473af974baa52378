#!/bin/bash
# What OSS-Fuzz builds runs by itself: each target, from a folder that holds nothing else. Only in make check-all.
# timeout: 900
set -u
cd "$(dirname "$0")/../.." || exit 1
for command in clang zip unzip; do
    command -v $command >/dev/null || { echo "$command is not installed" && exit 77; }
done
clang -fsanitize=fuzzer -x c -o /dev/null - <<<'int LLVMFuzzerTestOneInput(void) { return 0; }' 2>/dev/null ||
    { echo "clang has no libFuzzer (Debian: libclang-rt-14-dev)" && exit 77; }
# Targets run on the release that they were built on, else on one with an older C library.
tag=$(sed -n 's/^FROM .*://p' tests/fuzz/oss-fuzz/Dockerfile)
grep -qx "base_os_version: $tag" tests/fuzz/oss-fuzz/project.yaml || { echo "project.yaml names another release than $tag" && exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
env -i PATH="$PATH" HOME="$HOME" OUT="$out" CC=clang CFLAGS='-O1 -g -fsanitize=address,fuzzer-no-link' LIB_FUZZING_ENGINE=-fsanitize=fuzzer \
    tests/fuzz/oss-fuzz/build.sh >"$out/log" 2>&1 || { tail -n 20 "$out/log" && exit 1; }
status=0
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    mkdir "$out/$name.corpus" && (cd "$out/$name.corpus" && unzip -q "../${name}_seed_corpus.zip")
    (cd "$out" && "./$name" -runs=1 "$name.corpus" >"$out/log" 2>&1) || { echo "$name" && tail -n 20 "$out/log" && status=1; }
    ldd "$out/$name" | grep -q "hiredis.* $out/lib/" || { echo "$name takes a library of this machine" && status=1; }
done
exit $status
