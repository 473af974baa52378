# Completion of tidelock in bash.

_tidelock_options() { # command
    local all="--url --password-file --tls-ca --tls-cert --tls-key --tls-name --help"
    local legacy="--protocol --namespace --clock-guard --dialect --legacy-ttl --max-skew --legacy-lag --strict"
    case $1 in
    '') echo "$all --version" ;;
    run)
        echo "$all --ttl --wait --no-wait --conflict-exit-code --on-lost --max-hold --forever --json-fd --json" \
            "--format --name --verbose $legacy"
        ;;
    lock) echo "$all --ttl --wait --no-wait --json --format $legacy" ;;
    extend) echo "$all --ttl $legacy" ;;
    check) echo "$all --json --format $legacy" ;;
    unlock) echo "$all $legacy" ;;
    break) echo "$all --yes --force $legacy" ;;
    inspect) echo "$all --limit --watch --json --format $legacy" ;;
    local) echo "$all --force --json --format" ;;
    skew)
        echo "$all --lock-timeout --max-hold --slack --warn --samples --for --expect --min-hosts --no-self --no-agents --ntp --chrony --kernel --servers" \
            "--format --json --output --stale-after --watch --log --publish --passive --legacy-ttl --dialect --keys --pool-wait"
        ;;
    doctor) echo "$all --json --format --acl --protocol --namespace --strict" ;;
    agent) echo "$all --name --every --once --forget --verbose" ;;
    migrate)
        echo "$all --namespace --keys --again --phase --lease --watch --monitor --force --wait --yes --dry-run --history --json --format --dialect" \
            "--legacy-ttl --max-skew --legacy-lag"
        ;;
    esac
}

# Sets command, and the place of its "--", from the words before the cursor.
_tidelock_parse() {
    local i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
        --url | --password-file | --tls-ca | --tls-cert | --tls-key | --tls-name | --ttl | --wait | --conflict-exit-code | --on-lost | --max-hold | --json-fd | \
            --format | --limit | --protocol | --dialect | --legacy-ttl | --max-skew | --legacy-lag | --lock-timeout | \
            --slack | --warn | --expect | --min-hosts | --forget | --publish | --samples | --for | --ntp | --output | --log | --keys | --pool-wait | --name | --every | \
            -t | -w | -E)
            if [[ ${words[i + 1]-} == '=' ]]; then i=$((i + 2)); else i=$((i + 1)); fi
            ;;
        --) if [[ $command == run ]]; then dashes=$i && return; fi ;;
        -*) ;;
        *) if [[ -z $command ]]; then command=${words[i]}; fi ;;
        esac
    done
}

_tidelock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local words=("${COMP_WORDS[@]}") cword=$COMP_CWORD command='' dashes=0
    local commands="run lock unlock extend check inspect break local skew agent doctor migrate help"
    local dialects="java jedis-lock jedis-lock-uuid ms-pipe redis-doc node-ms py-float py-float-1 rb-mutex rb-objects"
    dialects+=" rb-resque rb-pid php-s c-lua"

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
    --password-file | --tls-ca | --tls-cert | --tls-key | --output | --log) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W "term kill continue" -- "$cur") && return ;;
    --format)
        local formats="text json"
        if [[ $command == skew ]]; then formats+=" nagios prometheus html"; fi
        mapfile -t COMPREPLY < <(compgen -W "$formats" -- "$cur") && return
        ;;
    --protocol) mapfile -t COMPREPLY < <(compgen -W "token bridge timestamp auto" -- "$cur") && return ;;
    --dialect) mapfile -t COMPREPLY < <(compgen -W "$dialects" -- "$cur") && return ;;
    --ttl | --wait | --max-hold | --legacy-ttl | --max-skew | --legacy-lag | --lock-timeout | --slack | --for | --pool-wait | --stale-after | --every | --lease | -t | -w) mapfile -t COMPREPLY < <(compgen -W "500ms 5s 30s 5m 1h" -- "$cur") && return ;;
    --url) mapfile -t COMPREPLY < <(compgen -W "redis:// rediss:// unix:// local:" -- "$cur") && return ;;
    --conflict-exit-code | --json-fd | --limit | --warn | --samples | --ntp | --name | --namespace | --tls-name | --keys | -E) return ;;
    --clock-guard) mapfile -t COMPREPLY < <(compgen -W "warn refuse off" -- "$cur") && return ;;
    --phase) mapfile -t COMPREPLY < <(compgen -W "0 1 2 3" -- "$cur") && return ;;
    --watch)
        if [[ $command == migrate ]]; then mapfile -t COMPREPLY < <(compgen -W "30s 5m 1h 1d" -- "$cur") && return; fi
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tidelock_options "$command")" -- "$cur")
    elif [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands dialects" -- "$cur")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    elif [[ $command == local ]]; then
        mapfile -t COMPREPLY < <(compgen -W "status stop" -- "$cur")
    elif [[ $command == skew && ${words[cword - 1]} == skew ]]; then
        mapfile -t COMPREPLY < <(compgen -W "report" -- "$cur")
    elif [[ $command == skew ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [[ $command == migrate ]]; then
        mapfile -t COMPREPLY < <(compgen -W "init status advance rollback sweep clients acl" -- "$cur")
    fi
}
complete -F _tidelock tidelock
