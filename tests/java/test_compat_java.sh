#!/bin/bash
# The Java class that follows a migration (compat/java): its pure parts with the time as data, and the whole on a real
# server, beside the class that it replaces.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../cli/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi
classes=$here/${BUILD:-build}/java
[[ -d $classes/io ]] || { echo "no JDK (Debian: default-jdk-headless)" && exit 77; }

cd "$here" || exit 1
javac -Xlint:all -Werror -cp "$classes" -d "$work/tests" tests/java/io/tidelock/*.java tests/java/*.java \
    tests/legacy/{RespSocket,DistributeLockUtil}.java >"$out" 2>&1 || fail "javac: $(cat "$out")"
java=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -cp "$work/tests:$classes")

"${java[@]}" io.tidelock.PureTests >"$out" 2>&1 || fail "$(cat "$out")"
start_server
open_port
"${java[@]}" ServerTests "$port" >"$out" 2>&1 || fail "$(cat "$out")"

# It is listed while it is open.
coproc peer { "${java[@]}" WirePeer "$port" listed; }
to=${peer[1]} from=${peer[0]}
echo 'lock k' >&"$to"
read -r -t 60 said <&"$from" || fail "no reply"
[[ $said == yes ]] || fail "it says $said"
expect 0 "$tidelock" migrate clients --namespace listed
grep -q 'peer on .* version [0-9.]*-java$' "$out" || fail "it is listed as $(<"$out")"
