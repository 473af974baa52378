#!/bin/bash
# Several servers for trying out: started together, found by the URL that is printed, shown, and ended together.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
dir=$work/tidelock-demo
# A process that ends closes its files before it leaves its directory.
none_runs() { [[ -z $(local_servers) ]]; }
port_of() { "$tidelock" local demo status | sed -n "s/^127.0.0.1:\([0-9]*\)  $1,.*/\1/p" | head -n 1; }
pid_of() { cat "$dir/$1/pid"; }
# Servers that a busy machine has held up may need a moment until each has its part again.
found=
finds() { found=$(port_of "$1") && [[ -n $found ]]; }
find_one() { until_true 30 finds "$1" || depth=1 fail "no $1: $("$tidelock" local demo status)"; } # its port comes into $found
parts_are() { # how many of each, and what "status" says comes into $out
    expect 0 "$tidelock" local demo status
    [[ $(sed 1d "$out" | cut -d' ' -f3 | sort | uniq -c | xargs) == "$1" ]]
}

# ---- usage, and where there is none ---------------------------------------------------------------
expect_line 64 'say sentinel, cluster, quorum, etcd, status or stop' "$tidelock" local demo
expect_line 64 'say sentinel, cluster, quorum, etcd, status or stop' "$tidelock" local demo ring
expect_line 64 'it takes no options' "$tidelock" local demo sentinel --force
expect_line 64 'too many arguments' "$tidelock" local demo sentinel stop
expect 1 "$tidelock" local demo status
grep -qx 'no demo runs' "$out" || fail "status says: $(cat "$out")"
expect 0 "$tidelock" local demo stop
mkdir -m 755 "$dir"
expect_line 77 'others may enter it' "$tidelock" local demo sentinel
rmdir "$dir"
mkdir "$work/empty"
expect_line 69 'no redis-server in PATH: install it' env PATH="$work/empty" "$tidelock" local demo sentinel
expect_line 69 'no etcd in PATH: install it .*etcd-server' env PATH="$work/empty" "$tidelock" local demo etcd
expect 0 "$tidelock" local demo stop
[[ ! -e $dir ]] || fail "$dir is still there"

# ---- Sentinels ------------------------------------------------------------------------------------
expect 0 "$tidelock" local demo sentinel
url=$(cat "$out")
[[ $url =~ ^redis\+sentinel://127.0.0.1:[0-9]+,127.0.0.1:[0-9]+,127.0.0.1:[0-9]+/demo$ ]] || fail "printed: $url"
grep -q 'without a password' "$err" || fail "who may use them isn't said: $(cat "$err")"
expect_line 77 "a demo of sentinel runs already, at ${url/+/.}" "$tidelock" local demo sentinel
(
    exec 9<"$dir"
    flock 9
    expect_line 75 'another "tidelock local demo" is running' "$tidelock" local demo stop
) || exit
until_true 30 parts_are "3 Sentinel, 1 master, 2 replica," || fail "status says: $(cat "$out")"
[[ $(sed -n 1p "$out") == "$url" ]] || fail "status names another URL: $(cat "$out")"
expect 0 "$tidelock" --url "$url" run job -- echo done
[[ $(cat "$out") == "done" ]] || fail "the command printed: $(cat "$out")"

# A master that is killed is replaced, and the URL leads to the other.
find_one master
master=$found
kill -KILL "$(pid_of "$master")"
other() { [[ $(port_of master) != "" && $(port_of master) != "$master" ]]; }
until_true 40 other || fail "nobody took over: $("$tidelock" local demo status)"
expect 0 "$tidelock" --url "$url" run -w 50s job -- echo again
"$tidelock" local demo status >"$out"
again=$(sed -n "s/^127.0.0.1:$master  no answer; to start it again: //p" "$out")
[[ -n $again ]] || fail "who is gone isn't shown: $(cat "$out")"
$again
back() { [[ $("$tidelock" local demo status | grep -c "^127.0.0.1:$master  .*, pid $(pid_of "$master")\$") == 1 ]]; }
until_true 10 back || fail "it isn't back: $("$tidelock" local demo status)"
kill -KILL "$(pid_of "$master")"

# All of them are ended, also one that is stopped; and nobody else who has a pid of theirs by now.
find_one replica
kill -STOP "$(pid_of "$found")"
sleep 1000 &
echo $! >"$dir/$master/pid"
expect 0 "$tidelock" local demo stop
until_true 30 none_runs || fail "some still run: $(local_servers)"
kill -0 $! || fail "another's process was ended"
kill $!
[[ ! -e $dir ]] || fail "$dir is still there"
expect 0 "$tidelock" local demo stop

# ---- the other kinds ------------------------------------------------------------------------------------
for kind in cluster quorum; do
    expect 0 "$tidelock" local demo "$kind"
    url=$(cat "$out")
    expect 0 "$tidelock" --url "$url" run job -- echo done
    [[ $(cat "$out") == "done" ]] || fail "$kind: the command printed: $(cat "$out")"
    expect 0 "$tidelock" local demo stop
    until_true 30 none_runs || fail "$kind: some still run: $(local_servers)"
done

# ---- etcd -----------------------------------------------------------------------------------------------
if ! command -v etcd >/dev/null; then
    part_skipped etcd "there is none (Debian: etcd-server)"
    exit 0
fi
expect 0 "$tidelock" local demo etcd
url=$(cat "$out")
[[ $url =~ ^etcd://127.0.0.1:[0-9]+,127.0.0.1:[0-9]+,127.0.0.1:[0-9]+$ ]] || fail "printed: $url"
grep -q 'without a password' "$err" || fail "who may use them isn't said: $(cat "$err")"
expect_line 77 "a demo of etcd runs already, at $url" "$tidelock" local demo etcd
until_true 30 parts_are "2 follower, 1 leader," || fail "status says: $(cat "$out")"
[[ $(sed -n 1p "$out") == "$url" ]] || fail "status names another URL: $(cat "$out")"
expect 0 "$tidelock" --url "$url" run job -- echo done
[[ $(cat "$out") == "done" ]] || fail "the command printed: $(cat "$out")"

# A leader that is killed is replaced, and can be started again.
find_one leader
master=$found
kill -KILL "$(pid_of "$master")"
other() { [[ $(port_of leader) != "" && $(port_of leader) != "$master" ]]; }
until_true 40 other || fail "nobody leads: $("$tidelock" local demo status)"
expect 0 "$tidelock" --url "$url" run -w 50s job -- echo again
again=$("$tidelock" local demo status | sed -n "s/^127.0.0.1:$master  no answer; to start it again: //p")
[[ -n $again ]] || fail "who is gone isn't shown"
$again
until_true 20 back || fail "it isn't back: $("$tidelock" local demo status)"

# All of them are ended, and nobody else.
kill -KILL "$(pid_of "$master")"
sleep 1000 &
echo $! >"$dir/$master/pid"
find_one leader
kill -STOP "$(pid_of "$found")"
expect 0 "$tidelock" local demo stop
until_true 30 none_runs || fail "some still run: $(local_servers)"
kill -0 $! || fail "another's process was ended"
kill $!
[[ ! -e $dir ]] || fail "$dir is still there"
