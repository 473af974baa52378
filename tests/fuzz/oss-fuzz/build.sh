#!/bin/bash -eu
# Build each fuzz target for OSS-Fuzz, with its corpus and options. The environment is OSS-Fuzz': CC, CFLAGS,
# LIB_FUZZING_ENGINE, and OUT, which is all that the machine has on which the targets run.
# shellcheck disable=SC2016 # $ORIGIN is the loader's
targets=(tests/fuzz/fuzz_*.c)
targets=("${targets[@]%.c}")
make -j"$(nproc)" WERROR=0 BUILD=build/oss-fuzz FUZZER="$LIB_FUZZING_ENGINE" CPPFLAGS=-U_FORTIFY_SOURCE \
    LDFLAGS='-Wl,-rpath,\$$ORIGIN/lib' "${targets[@]/#/build/oss-fuzz/}"
mkdir -p "$OUT/lib"
for target in "${targets[@]}"; do
    name=${target##*/fuzz_}
    cp "build/oss-fuzz/$target" "$OUT/"
    (cd "tests/fuzz/corpus/$name" && zip -q -r "$OUT/fuzz_${name}_seed_corpus.zip" .)
    options=$(sed -n 's/^ \* fuzz: *-\([a-z_]*\)=\([0-9]*\)$/\1 = \2/p' "$target.c")
    if [[ -n $options ]]; then printf '[libfuzzer]\n%s\n' "$options" >"$OUT/fuzz_$name.options"; fi
    ldd "build/oss-fuzz/$target" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+)\.so/ {print $3}'
done | sort -u | xargs -r cp -L -t "$OUT/lib"
