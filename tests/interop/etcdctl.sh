#!/bin/bash
# The peer program for `etcdctl lock`: etcdctl.sh PORT. It speaks the protocol of README.md. What is acquired is held by
# an etcdctl that runs until it is told to end; a section is the command that etcdctl runs.
here=$(cd "${0%/*}" && pwd)
room=$(mktemp -d) || exit
holder=
export ETCDCTL_ENDPOINTS=127.0.0.1:$1
lock=(setpriv --pdeathsig KILL etcdctl lock) # it is killed with us
TRY_MS=2000 # one try: it knows only waiting, and takes some time to begin

end_holder() {
    [[ -n $holder ]] || return
    kill -INT "$holder" # which it takes even where shells have it ignored
    wait "$holder"
    holder=
} 2>/dev/null
trap 'end_holder; rm -rf "$room"' EXIT
trap 'exit 1' TERM
tell() { printf '%s\n' "$*"; }
wrong() { tell "error $*" && exit 1; }

acquire() { # key ttl-ms wait-ms
    local value=''
    rm -f "$room/said"
    mkfifo "$room/said" || wrong "no fifo"
    "${lock[@]}" --ttl $(($2 / 1000)) "$1" >"$room/said" 2>"$room/log" &
    holder=$!
    exec 7<>"$room/said" # and stays open: it says more, and a broken pipe would end it
    read -r -t "$(printf '%d.%03d' $(($3 / 1000)) $(($3 % 1000)))" -u 7 value
    if [[ -n $value ]]; then tell "ok $value" && return; fi
    kill -0 "$holder" 2>/dev/null || wrong "etcdctl: $(tail -n 1 "$room/log")"
    end_holder
    tell busy
}
under() { # key ttl-ms command...
    "${lock[@]}" --ttl $(($2 / 1000)) -- "$1" "${@:3}" >"$room/log" 2>&1 || wrong "etcdctl: $(tail -n 1 "$room/log")"
}

tell ready
while read -r what key ttl more name; do
    case $what in
    acquire) acquire "$key" "$ttl" $((more > 0 ? more : TRY_MS)) ;;
    release) end_holder && tell ok ;;
    turn) under "$key" "$ttl" sh -c "echo '$name' >>'$more'" && tell ok ;;
    count)
        for ((i = 0; i < more; i++)); do under "$key" "$ttl" "$here/section_file.sh" "$name"; done
        tell "ok $more"
        ;;
    *) wrong "unknown command" ;;
    esac
done
