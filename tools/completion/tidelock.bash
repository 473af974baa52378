# Completion of tidelock in bash.

_tidelock_options() { # command
    local all="--url --password-file --help"
    case $1 in
    '') echo "$all --version" ;;
    run)
        echo "$all --ttl --wait --no-wait --conflict-exit-code --on-lost --max-hold --forever --json-fd --json" \
            "--format --verbose"
        ;;
    lock) echo "$all --ttl --wait --json --format" ;;
    extend) echo "$all --ttl" ;;
    check) echo "$all --json --format" ;;
    unlock) echo "$all" ;;
    esac
}

# Sets command, and the place of its "--", from the words before the cursor.
_tidelock_parse() {
    local i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
        --url | --password-file | --ttl | --wait | --conflict-exit-code | --on-lost | --max-hold | --json-fd | \
            --format | -t | -w | -E)
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
    local commands="run lock unlock extend check help"

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
    --password-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && return ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W "term kill continue" -- "$cur") && return ;;
    --format) mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur") && return ;;
    --ttl | --wait | --max-hold | -t | -w) mapfile -t COMPREPLY < <(compgen -W "500ms 5s 30s 5m 1h" -- "$cur") && return ;;
    --url) mapfile -t COMPREPLY < <(compgen -W "redis:// rediss:// unix://" -- "$cur") && return ;;
    --conflict-exit-code | --json-fd | -E) return ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_tidelock_options "$command")" -- "$cur")
    elif [[ -z $command || $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    fi
}
complete -F _tidelock tidelock
