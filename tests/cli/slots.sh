# shellcheck shell=bash disable=SC2154,SC2034
# What the tests of migrate in a cluster share: three masters with a replica each, and what their registers say. Source it
# behind lib.sh.
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
mapfile -t port < <(ports_of "$url")
of() { redis-cli -p "$@" 2>/dev/null; }
find_masters() {
    masters=() replicas=()
    for p in "${port[@]}"; do
        if [[ $(of "$p" ROLE | head -n 1) == master ]]; then masters+=("$p"); else replicas+=("$p"); fi
    done
    ((${#masters[@]} == 3 && ${#replicas[@]} == 3))
}
until_true 20 find_masters || fail "not three masters: ${masters[*]}"
mkdir "$work/bin"
cat >"$work/bin/migrate" <<WRAPPER
#!/bin/sh
case "\$*" in
*"--wait "*) ;;
"advance"* | "rollback"*) set -- "\$@" --wait 0s ;;
esac
exec "$tidelock" migrate "\$@"
WRAPPER
chmod +x "$work/bin/migrate"
PATH=$work/bin:$PATH
registers() { of "$1" --scan --pattern 'tidelock:phase:slot:*:default'; }
count="local n = {0, 0, 0, 0}
for _, key in ipairs(redis.call('KEYS', 'tidelock:phase:slot:*:default')) do
    local i = string.byte(redis.call('GET', key)) - 47
    n[i] = n[i] + 1
end
return table.concat(n, ' ')"
said() { for p in "${masters[@]}"; do of "$p" EVAL "$count" 0; done | awk '{ for (i = 1; i < 5; i++) n[i] += $i } END { print n[1], n[2], n[3], n[4] }'; }
all_in() { # phase
    local want=(0 0 0 0) got
    want[$1]=16384 got=$(said)
    [[ $got == "${want[*]}" ]] || depth=1 fail "so many slots are in phase 0 to 3: $got; all should be in $1"
}
owner() {
    local p
    for p in "${masters[@]}"; do
        if [[ $(of "$p" EXISTS "$1" 2>&1) =~ ^[01]$ ]]; then echo "$p" && return; fi
    done
}
at() { local k=$1 && shift && of "$(owner "$k")" "$@"; } # key words...
says() { grep -qE -- "$1" "$out" || depth=1 fail "no '$1': $(cat "$out")"; }
refused() { # pattern command...
    local pattern=$1
    shift
    depth=1 expect_from 77 "$@"
    [[ ! -s $out ]] || depth=1 fail "stdout is not empty: $(cat "$out")"
    grep -qE -- "$pattern" "$err" || depth=1 fail "no line has '$pattern'"
}
