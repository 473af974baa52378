# shellcheck shell=bash
# How the peers of a folder are fetched and built, language by language, by its own package manager and
# pinned by version and checksum. What can't be had is no failure; other bytes than those pinned are one.
# Whoever sources this has $here and $work (../cli/lib.sh) and has set $goal, what make is asked for; $peers, a
# row for each with its name and language first; $from, the folder with `node`, `go` and `java`; and $into,
# where all goes.
# shellcheck disable=SC2154
FETCH_S=45 PREPARE_S=110 # both together
SKIP=77

# ---- which ------------------------------------------------------------------------------------
wanted() { # words of a row
    local w
    [[ -n ${PEERS:-} ]] || return 0
    for w in $PEERS; do [[ " $* " != *" $w "* ]] || return 0; done
    return 1
}
check_wanted() {
    local w
    for w in ${PEERS:-}; do
        grep -qE "(^| )$w( |$)" <<<"$peers" && continue
        echo "make $goal: no peer '$w'; there are:" >&2
        sed '/^$/d; s/^/  /' <<<"$peers" >&2
        exit 1
    done
}
languages() { while read -r row; do [[ -z $row ]] || ! wanted "$row" || awk '{ print $2 }' <<<"$row"; done <<<"$peers" | sort -u; }

# ---- fetch and build --------------------------------------------------------------------------
# Each of these says in one line why it can't, and ends with SKIP or with 1.
needs() { # command, the language's name
    command -v "$1" >/dev/null || { echo "$2 is absent (no $1)" && exit $SKIP; }
}
at_least() { # version wanted, found, of what
    [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]] || { echo "$3 $2 is older than $1" && exit $SKIP; }
}
fetch() { # registry's name, log, command...
    local registry=$1 log=$2 status
    shift 2
    timeout --foreground -k 5 $FETCH_S "$@" >"$log" 2>&1 </dev/null
    status=$?
    if ((status == 0)); then return; fi
    if grep -qiE 'EINTEGRITY|checksum mismatch|SECURITY ERROR|verify the checksum' "$log"; then
        echo "$registry has other bytes than those pinned (${log#"$here/"})"
        exit 1
    fi
    if ((status == 124 || status == 137)); then
        echo "$registry did not answer within $FETCH_S s"
    else
        echo "$registry is not reachable (${log#"$here/"})"
    fi
    exit $SKIP
}
# What a compiler has finished it keeps, so that a build that took too long gets further next time.
build() { # log command...
    local log=$1 status
    shift
    timeout --foreground -k 5 $((PREPARE_S - SECONDS)) "$@" >"$log" 2>&1 </dev/null
    status=$?
    if ((status == 0)); then return; fi
    if ((status == 124 || status == 137)); then
        echo "not built within $PREPARE_S s: try again"
        exit $SKIP
    fi
    echo "does not build: $(tail -n 1 "$log") (${log#"$here/"})"
    exit 1
}
# A program for each peer, by its name in $into/bin.
program() { # name, command...
    printf '#!/bin/bash\nexec %s "$@"\n' "$(printf '%q ' "${@:2}")" >"$into/bin/$1"
    chmod 755 "$into/bin/$1"
}

prepare_node() {
    needs node Node && needs npm Node
    at_least 18 "$(node -p process.versions.node)" Node
    if ! cmp -s "$from/node/package-lock.json" "$into/node/fetched"; then
        cp "$from"/node/package*.json "$into/node"
        fetch "npm's registry" "$into/node/log" npm ci --prefix "$into/node" --prefer-offline --ignore-scripts --no-audit \
            --no-fund --no-update-notifier --fetch-retries=1 --fetch-timeout=20000
        cp "$from/node/package-lock.json" "$into/node/fetched"
    fi
}

# No other toolchain than the one that is here is fetched.
go_module() { # folder below $into, [where it is]
    export GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off
    needs go Go
    cd "${2:-$from/$1}" || exit 1
    at_least "go$(sed -n 's/^go //p' go.mod)" "$(go env GOVERSION)" Go
    fetch "Go's module proxy" "$into/$1/log" go mod download
    build "$into/$1/build.log" go build -o "$into/$1/peer" .
}
prepare_go() { go_module go; }
prepare_go-etcd() {
    needs etcd etcd && needs etcdctl etcd
    go_module go-etcd
}
prepare_etcdctl() { needs etcd etcd && needs etcdctl etcd; }

java_module() { # folder below $into, sources...
    needs java Java && needs javac Java
    mkdir -p "$into/$1"
    if ! jars_are_there "$1"; then
        needs mvn Maven
        rm -rf "$into/$1/jars"
        fetch "Maven's repository" "$into/$1/log" mvn -B -f "$from/$1/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies "-DoutputDirectory=$into/$1/jars"
        jars_are_there "$1" || { echo "Maven's repository has other bytes than those pinned" && exit 1; }
    fi
    build "$into/$1/build.log" javac -cp "$into/$1/jars/*" -d "$into/$1/classes" "${@:2}"
}
prepare_java() { java_module java "$from"/java/*.java; }
jars_are_there() { (cd "$into/$1/jars" && sha256sum --quiet -c "$from/$1/jars.sha256") >/dev/null 2>&1; }

prepare() { # language; leaves why and the status in $work
    mkdir -p "$into/$1" "$into/bin"
    ("prepare_$1") >"$work/$1.why"
    echo $? >"$work/$1.status"
}
