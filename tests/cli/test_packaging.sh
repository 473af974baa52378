#!/bin/bash
# The examples of tools/packaging: units that systemd accepts, YAML that can be read, images with what they need; and what they
# run does what they say, on a private server in place of theirs.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
examples=$here/tools/packaging/examples
mkdir "$work/bin" && ln -s "$tidelock" "$work/bin/tidelock" # so they call it
export PATH=$work/bin:$PATH

# ---- what is in the files -------------------------------------------------------------------------
# A line: file, what it is, then the words of a command, as Python quotes them for a shell.
cat >"$work/read.py" <<'EOF'
import shlex, sys, yaml
compose = yaml.safe_load(open(sys.argv[1] + "/compose.yaml"))
services = compose["services"]
agents = [n for n, s in services.items() if s["command"][0] == "agent"]
assert len(agents) == 3 and len({services[n]["hostname"] for n in agents}) == 3, agents
assert all(services[n]["environment"]["TIDELOCK_URL"] == "redis://redis" for n in agents + ["worker"])
for name, s in services.items():
    print("compose", name, shlex.join(w.replace("$$", "$") for w in s["command"]), sep="\t")
secret, job = yaml.safe_load_all(open(sys.argv[1] + "/cronjob.yaml"))
assert job["kind"] == "CronJob"
pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
container, = pod["containers"]
for e in container["env"]:
    ref = e["valueFrom"]["secretKeyRef"]
    assert ref["name"] == secret["metadata"]["name"] and (ref["key"] in secret["stringData"] or ref["optional"]), e
code, = job["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
print("cronjob", "busy", code, sep="\t")
print("cronjob", "run", shlex.join(container["args"]), sep="\t")
EOF
"$python" "$work/read.py" "$examples" >"$work/commands" 2>"$err" || fail "the YAML is not what it should be"
words=() words_unit=()
command_of() { # file, what; in $words
    local line
    line=$(awk -F'\t' -v f="$1" -v w="$2" '$1 == f && $2 == w { print $3 }' "$work/commands")
    [[ $line ]] || fail "$1 has no command for $2"
    eval "words=($line)"
}

# ---- compose ---------------------------------------------------------------------------------------
command_of compose redis
[[ ${words[0]} == redis-server ]] || fail "the server is ${words[0]}"
{ redis-server --port 0 --unixsocket "$socket" --dir "$work" --loglevel warning "${words[@]:1}" & } >"$work/server.log" 2>&1
server_pid=$!
disown
until_true 30 server_answers || fail "the server doesn't start: $(cat "$work/server.log")"
export TIDELOCK_URL=unix://$socket
[[ $(redis CONFIG GET appendonly) == *yes ]] || fail "the server doesn't keep its data"

for host in host1 host2 host3; do
    command_of compose $host
    { tidelock "${words[@]}" --name $host & } >"$work/agent.log" 2>&1
done
published() { [[ $(redis ZCARD '{tidelock:agents}') == 3 ]]; }
until_true 30 published || fail "three agents publish $(redis ZCARD '{tidelock:agents}') clocks: $(cat "$work/agent.log")"

command_of compose worker
for i in 1 2 3; do tidelock "${words[@]}" >"$work/worker.$i" 2>&1 & done
worked() { [[ $(cat "$work"/worker.? | grep -c '^working with fence [1-9]') -ge 2 ]]; }
until_true 30 worked || fail "the workers say: $(cat "$work"/worker.?)"
fences=$(cat "$work"/worker.? | sed -n 's/^working with fence //p')
[[ $(sort -u <<<"$fences" | wc -l) == $(wc -l <<<"$fences") ]] || fail "two worked with one fence: $fences"

# ---- the job of a cluster, and that of a timer -------------------------------------------------------
command_of cronjob run
expect 0 tidelock "${words[@]}"
grep -q '^nightly, fence [1-9]' "$out" || fail "the job says: $(cat "$out")"
command_of cronjob busy
busy=${words[0]}
[[ $(sed -n 's/^SuccessExitStatus=//p' "$examples/nightly.service") == "$busy" ]] || fail "the unit takes another status for busy"
unit=$(sed -n 's/^ExecStart=\/usr\/bin\/tidelock //p' "$examples/nightly.service")
eval "words_unit=(${unit//\$\$/\$})"
# They have one key, and one of both has done it.
expect "$busy" tidelock "${words_unit[@]}"
grep -q ' done by sh on ' "$err" || fail "a unit that comes later says: $(cat "$err")"
expect 0 tidelock break --yes jobs:nightly
expect 0 tidelock "${words_unit[@]}"
grep -q '^nightly, fence [1-9]' "$out" || fail "the unit says: $(cat "$out")"
command_of cronjob run
expect "$busy" tidelock "${words[@]}"
# Both stand by while another holds the lock, for minutes and an hour: here for a time in which a busy server replies, too.
redis SET jobs:nightly "another's" PX 600000 >/dev/null
for run in words words_unit; do
    declare -n those=$run
    for i in "${!those[@]}"; do
        if [[ ${those[i]} == -w ]]; then those[i + 1]=3s; fi
    done
    expect "$busy" tidelock "${those[@]}"
done

if command -v systemd-analyze >/dev/null; then
    mkdir "$work/units"
    for unit in "$examples"/nightly.{service,timer} "$here/tools/tidelock-agent.service"; do
        sed "s,/usr/bin/tidelock,$work/bin/tidelock,; s,@BINDIR@,$work/bin,; s,^Documentation=.*,," "$unit" >"$work/units/${unit##*/}"
    done
    systemd-analyze verify --recursive-errors=no "$work"/units/* >"$out" 2>&1 || fail "systemd refuses a unit: $(head -n 5 "$out")"
    # shellcheck disable=SC2016
    ! grep "$work/units" "$out" || fail "systemd has a word against a unit"
else
    part_skipped units "there is no systemd-analyze (Debian: systemd)"
fi

# ---- the packages ---------------------------------------------------------------------------------------
# What apt installs beside them without being asked starts no server on each host.
! grep -E '^(Depends|Recommends):.*(redis|valkey|etcd)(-server)?( |,|$)' "$here/tools/packaging/debian/control" || fail "a package brings a server"

# What the library links: Debian's control is tried by make check-packages, and rpm's names are those of pkg-config.
for lib in hiredis jansson libnghttp2 openssl uuid; do
    [[ $(grep -c "^BuildRequires: *pkgconfig($lib)\$" "$here/tools/packaging/rpm/tidelock.spec") == 1 ]] || fail "the RPM packages are built without $lib"
done
sh -n "$here/tools/packaging/alpine/APKBUILD" || fail "the APKBUILD"

# Where git refuses, as for a clone of another user, the packages' time isn't that of some file.
mkdir -p "$work/clone/.git" "$work/clone/tools/packaging" "$work/clone/include/tidelock" "$work/clone/src" "$work/refuses"
cp "$here/tools/packaging/deb.sh" "$work/clone/tools/packaging/"
echo '#define TL_VERSION "1.2.3"' >"$work/clone/include/tidelock/tidelock.h"
touch "$work/clone/src/CHANGELOG.md"
printf '#!/bin/sh\necho "fatal: detected dubious ownership in repository" >&2\nexit 128\n' >"$work/refuses/git"
chmod +x "$work/refuses/git"
expect 1 env -u SOURCE_DATE_EPOCH PATH="$work/refuses:$PATH" "$work/clone/tools/packaging/deb.sh" "$work/deb"
grep -qxE 'deb.sh: git does not say when .*; set SOURCE_DATE_EPOCH' "$err" || fail "deb.sh takes another time"

# ---- a build for another processor --------------------------------------------------------------------
# Nothing that is built runs here: what the command says of itself comes from one that does.
env -u COMPAT -u SAN -u MAKEFLAGS make -n -C "$here" BUILD="$work/other" NATIVE=/native/tidelock all >"$work/steps" 2>"$err" || fail "make -n"
[[ $(grep -c '^/native/tidelock help ' "$work/steps") == 2 ]] || fail "the tables of options are not the native command's"
! grep -E "^($work/other|build)/[^ ]* " "$work/steps" || fail "a program that was built for another processor is run"

# The libraries of that processor are those that its pkg-config names.
printf '#!/bin/sh\n[ "$1" = --exists ] || echo -L/of/another\n' >"$work/bin/other-pkg-config"
chmod +x "$work/bin/other-pkg-config"
env -u COMPAT -u SAN -u MAKEFLAGS make -n -C "$here" BUILD="$work/other" NATIVE=/native/tidelock PKG_CONFIG=other-pkg-config all >"$work/steps" 2>"$err" || fail "make -n"
grep -q -- '-shared .* -L/of/another .*-o ' <(sed -e :a -e '/\\$/N; s/\\\n//; ta' "$work/steps") || fail "the libraries are not those of the other pkg-config"
! grep -- ' -lhiredis' "$work/steps" || fail "the libraries are this processor's"

# ---- a build without a library ----------------------------------------------------------------------
# It says what is missing, and nothing of what was not wanted.
missing() { # what it says, arguments of make...
    local said=$1
    shift
    env -u COMPAT -u SAN -u MAKEFLAGS make -n -C "$here" BUILD="$work/other" "$@" lib >"$work/steps" 2>"$err" || fail "make -n"
    said=$(diff <(printf '%s' "$said") <(sed -n "s/^echo 'tidelock: .*: \\(.*\\) is missing.*/\\1/p" "$work/steps")) || depth=1 fail "make $*: $said"
}
all="HAS=cc hiredis uuid jansson ssl nghttp2"
missing '' "$all" TLS=0 HTTP2=0
missing '' "$all" JSON=0
missing '' 'HAS=cc hiredis uuid' TLS=0 JSON=0
missing $'jansson\n' 'HAS=cc hiredis uuid ssl nghttp2'
missing $'libnghttp2\nOpenSSL\n' 'HAS=cc hiredis uuid jansson'

# ---- what root finds made ---------------------------------------------------------------------------
# Then install only copies: else root leaves files in the user's build, which `make clean` can't remove.
env -u COMPAT -u SAN -u MAKEFLAGS make -n -C "$here" BUILD="$work/other" NATIVE=/native/tidelock V=1 install DESTDIR="$work/to" >"$work/more" 2>"$err" ||
    fail "make -n install"
env -u COMPAT -u SAN -u MAKEFLAGS make -n -C "$here" BUILD="$work/other" NATIVE=/native/tidelock V=1 all >"$work/steps" 2>"$err" || fail "make -n"
made=$(grep -vxFf "$work/steps" "$work/more" | grep "$work/other" | grep -v "install .*-m [67].*$work/to")
[[ -z $made ]] || fail "install makes what all has not made: $made"

# ---- the image ----------------------------------------------------------------------------------------
# What is copied into it is enough to build the command, and what it builds is what it says.
mkdir "$work/image"
while read -r from to; do cp -r "$here/$from" "$work/image/$to" || fail "the image copies $from"; done < <(sed -n 's/^COPY \([^-].*\)/\1/p' "$examples/Dockerfile")
made=$(sed -n 's/^RUN \(make .* tool\) &&.*/\1/p' "$examples/Dockerfile")
[[ $made ]] || fail "the image makes no tool"
(cd "$work/image" && env -u BUILD -u COMPAT -u SAN -u MAKEFLAGS bash -c "${made/make/make -n}") >"$out" 2>"$err" || fail "the image lacks something to build"
grep -q -- '-o build/tidelock$' "$out" || fail "the image doesn't link the tool"
# Its second stage has what the command is linked with, by the packages' names there (Debian 12).
if grep -qs '^VERSION_ID="12"' /etc/os-release; then
    for lib in $(ldd "$tidelock" | sed -n 's,.* => \(/[^ ]*\) .*,\1,p' | grep -E 'hiredis|jansson|nghttp2|libssl|uuid'); do
        package=$(dpkg -S "$(realpath "$lib")" 2>/dev/null | sed 's/:.*//; s/t64$//') || continue
        grep -q -- " $package\( \|$\)" "$examples/Dockerfile" || fail "the image lacks $package"
    done
else
    part_skipped "what the image's second stage has" "this is no Debian 12"
fi
exit 0
