# Completion of tidelock in bash. What is about legacy clients alone stands in legacy.bash, which is installed behind
# this with compat/ only.

_tidelock_options() { # command
    local all="--url --password-file --tls-ca --tls-cert --tls-key --tls-name --help"
    local legacy=
    if declare -F _tidelock_legacy_options >/dev/null; then legacy=$(_tidelock_legacy_options "$1"); fi
    case $1 in
    '') echo "$all --version" ;;
    run)
        echo "$all --ttl --wait --no-wait --fair --conflict-exit-code --on-lost --max-hold --forever --json-fd --metrics --json --quiet --wait-replicas --wait-fsync" \
            "--format --name --verbose $legacy"
        ;;
    lock) echo "$all --ttl --wait --no-wait --fair --quiet --wait-replicas --wait-fsync --json --format $legacy" ;;
    extend) echo "$all --ttl --wait-replicas --wait-fsync $legacy" ;;
    check) echo "$all --json --format $legacy" ;;
    unlock) echo "$all $legacy" ;;
    break) echo "$all --yes --force $legacy" ;;
    inspect) echo "$all --limit --watch --json --format $legacy" ;;
    local) echo "$all --force --json --format" ;;
    skew)
        echo "$all --lock-timeout --max-hold --slack --warn --samples --for --expect --min-hosts --no-self --no-agents --ntp --chrony --kernel --servers" \
            "--format --json --output --stale-after --watch --log --metrics $legacy"
        ;;
    doctor) echo "$all --json --format --acl --ttl --quiet --wait-replicas --wait-fsync $legacy" ;;
    agent) echo "$all --name --every --once --metrics --forget --verbose" ;;
    migrate) echo "$all $legacy" ;;
    esac
}

# Sets command, and the place of its "--", from the words before the cursor.
_tidelock_parse() {
    local i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
        --url | --password-file | --tls-ca | --tls-cert | --tls-key | --tls-name | --ttl | --wait | --conflict-exit-code | --on-lost | --max-hold | --json-fd | \
            --format | --quiet | --wait-replicas | --limit | --lock-timeout | --slack | --warn | --expect | --min-hosts | --forget | --samples | --for | --ntp | \
            --output | --log | --metrics | --name | --every | -t | -w | -E)
            if [[ ${words[i + 1]-} == '=' ]]; then i=$((i + 2)); else i=$((i + 1)); fi
            ;;
        --) if [[ $command == run ]]; then dashes=$i && return; fi ;;
        -*)
            if [[ ${words[i + 1]-} == '=' ]]; then
                i=$((i + 2))
            elif [[ " ${_tidelock_legacy_valued-} " == *" ${words[i]} "* ]]; then
                i=$((i + 1))
            fi
            ;;
        *) if [[ -z $command ]]; then command=${words[i]}; fi ;;
        esac
    done
}

_tidelock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local words=("${COMP_WORDS[@]}") cword=$COMP_CWORD command='' dashes=0 values=
    local commands="run lock unlock extend check inspect break local skew agent doctor help ${_tidelock_legacy_commands-}"

    COMPREPLY=()
    _tidelock_parse
    if ((dashes)); then
        # What follows is a command of its own.
        if declare -F _command_offset >/dev/null; then
            _command_offset $((dashes + 1))
        elif ((cword == dashes + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi
    # "--option=value" comes in three words.
    if [[ $cur == '=' ]]; then cur=; elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $prev in
    --password-file | --tls-ca | --tls-cert | --tls-key | --output | --log | --metrics) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W "term kill continue" -- "$cur") && return ;;
    --format)
        local formats="text json"
        if [[ $command == skew ]]; then formats+=" nagios prometheus html"; fi
        mapfile -t COMPREPLY < <(compgen -W "$formats" -- "$cur") && return
        ;;
    --ttl | --wait | --quiet | --max-hold | --lock-timeout | --slack | --for | --stale-after | --every | -t | -w) mapfile -t COMPREPLY < <(compgen -W "500ms 5s 30s 5m 1h" -- "$cur") && return ;;
    --url) mapfile -t COMPREPLY < <(compgen -W "redis:// rediss:// unix:// local:" -- "$cur") && return ;;
    --conflict-exit-code | --json-fd | --wait-replicas | --limit | --warn | --samples | --ntp | --name | --tls-name | -E) return ;;
    esac
    if declare -F _tidelock_legacy_values >/dev/null && _tidelock_legacy_values "$command" "$prev"; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur") && return
    fi
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tidelock_options "$command")" -- "$cur")
    elif [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands ${_tidelock_legacy_topics-}" -- "$cur")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    elif [[ $command == local && ${words[cword - 1]} == demo ]]; then
        mapfile -t COMPREPLY < <(compgen -W "sentinel cluster quorum etcd status stop" -- "$cur")
    elif [[ $command == local ]]; then
        mapfile -t COMPREPLY < <(compgen -W "status stop demo" -- "$cur")
    elif [[ $command == skew && ${words[cword - 1]} == skew ]]; then
        mapfile -t COMPREPLY < <(compgen -W "report" -- "$cur")
    elif [[ $command == skew ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [[ " ${_tidelock_legacy_commands-} " == *" $command "* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_tidelock_legacy_words-}" -- "$cur")
    fi
}
complete -F _tidelock tidelock
