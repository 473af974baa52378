#!/bin/bash
# The table of `make check-servers`: a row for each server that ran, in the place of its last one; rows of others stay.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

server() { # file, name, version
    printf '#!/bin/sh\necho "%s server v=%s sha=0 bits=64"\n' "$2" "$3" >"$dir/$1" && chmod 755 "$dir/$1"
}
server one Valkey 9.1.0
server two Redis 255.255.255
printf '#!/bin/sh\nexit 1\n' >"$dir/broken" && chmod 755 "$dir/broken"
printf '#!/bin/sh\necho "etcd Version: 3.6.5"\necho "Git SHA: 0"\n' >"$dir/etcd" && chmod 755 "$dir/etcd"

# As `make check-run` ends.
cat >"$dir/make" <<'EOF'
#!/bin/sh
case "$*" in *ETCD=*)
    echo 'ok    conform/test_etcd 1 s'
    exit 1
    ;;
esac
cat <<'END'
ok    conform/test_a                                 0.10 s, processor   0.01 s
ok    conform/test_b                                 0.10 s, processor   0.01 s, 1 skipped
FAIL  chaos/test_c                                   0.10 s (status 1)
      | ok    conform/test_none
skip  legacy/test_compat_d                           no Java
ok    cli/test_line                                  0.10 s, processor   0.01 s
skipped:
  conform/test_b: one: for a reason
  legacy/test_compat_d: no Java
failed: chaos/test_c; alone: make check ONLY=chaos/test_c
  conform/test_x: said by the test that failed
3 passed, 1 failed, 2 skipped
END
exit 1
EOF
chmod 755 "$dir/make"

page() {
    cat <<'EOF'
# A page
| Valkey | is no row here |
<!-- servers -->
| server | promises | faults | timestamp locks | tool | run on |
|---|---|---|---|---|---|
| Redis 7.0.15 | 9/0/0 | 9/0/0 | 9/0/0 | 9/0/0 | 2026-01-01 |
| Valkey 9.1.0 | 8/1/0 | 9/0/0 | 9/0/0 | 9/0/0 | 2026-01-02 |
<!-- /servers -->
after it
EOF
}
page >"$dir/page"
fails() { echo "$1" && exit 1; }
run() { # further settings
    env BUILD="$dir/build" MAKE="$dir/make" DEBIAN= PAGE="$dir/page" "$@" tests/servers.sh >"$dir/said" 2>&1 &&
        fails "a failed test was not noticed" || true
}
today=$(date -u +%F)

run SERVERS="$dir/one" ONLY=conform
diff <(page) "$dir/page" || fails "a part of the tests was recorded as all"
grep -q "^| Valkey 9.1.0 | 2/0/1 | 0/1/0 | 0/0/1 | 1/0/0 | $today |\$" "$dir/said" || fails "$(cat "$dir/said")"

run SERVERS="$dir/two $dir/broken $dir/one"
[[ $(date -u +%F) == "$today" ]] || exec "./$0" # it was midnight
{ page | sed '/^| Valkey 9/,$d'
    echo "| Redis 255.255.255 | 2/0/1 | 0/1/0 | 0/0/1 | 1/0/0 | $today |"
    echo "| Valkey 9.1.0 | 2/0/1 | 0/1/0 | 0/0/1 | 1/0/0 | $today |"
    page | sed -n '/^<!-- .servers/,$p'; } | diff - "$dir/page" || fails "the table is another"
grep -q 'broken.*does not run here' "$dir/said" || fails "a program that is no server was not reported"

cp "$dir/page" "$dir/before"
run ETCDS="$dir/etcd"
sed "/^| Valkey 9/a| etcd 3.6.5 | 1/0/0 | - | - | - | $today |" "$dir/before" | diff - "$dir/page" || fails "etcd has another row"
run ETCDS="$dir/etcd"
[[ $(grep -c '^| etcd ' "$dir/page") == 1 ]] || fails "etcd has two rows"
