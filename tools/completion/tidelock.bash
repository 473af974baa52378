# Completion of tidelock in bash. The table lists all commands, words and options. It is the output of
# `tidelock help options`, which make inserts here.
read -r -d '' _tidelock_table <<'END'
@TABLE@
END

# Offers the values of a list: a word in lower case as it is, for D durations, for FILE files.
_tidelock_offer() { # list current
    local word offered=
    for word in $1; do
        case $word in
        D) offered+=" 500ms 5s 30s 5m 1h" ;;
        URL) offered+=" redis:// rediss:// redis+sentinel:// redis+cluster:// redis+quorum:// etcd:// unix:// local:" ;;
        FILE* | SOCKET)
            mapfile -t COMPREPLY < <(compgen -f -- "$2")
            compopt -o filenames 2>/dev/null
            return
            ;;
        [A-Z-]*) ;;
        *) offered+=" $word" ;;
        esac
    done
    mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$2")
}

# Sets command, dashes (the index of its "--") and after (the last word that is neither an option nor a value), from the words.
_tidelock_parse() {
    local i kind of letter long needs rest valued=' '
    while IFS=$'\t' read -r kind of letter long needs rest; do
        if [[ $kind == option && $needs == needed ]]; then valued+="$of$letter $of$long "; fi
    done <<<"$_tidelock_table"
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
        --) if [[ $command == run ]]; then dashes=$i && return; fi ;;
        -*)
            if [[ ${words[i + 1]-} == '=' ]]; then
                i=$((i + 2))
            elif [[ $valued == *" -${words[i]} "* || $valued == *" $command${words[i]} "* ]]; then
                i=$((i + 1))
            fi
            ;;
        *) if [[ -z $command ]]; then command=${words[i]}; else after=${words[i]}; fi ;;
        esac
    done
}

_tidelock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local words=("${COMP_WORDS[@]}") cword=$COMP_CWORD command='' after=- dashes=0
    local kind of letter long needs values rest options='' commands='' offered='' equals=''

    COMPREPLY=()
    _tidelock_parse
    if ((dashes)); then
        # The words after "--" are another command.
        if declare -F _command_offset >/dev/null; then
            _command_offset $((dashes + 1))
        elif ((cword == dashes + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi
    # bash splits "--option=value" into three words.
    if [[ $cur == '=' ]]; then cur='' equals=1; elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]} equals=1; fi
    while IFS=$'\t' read -r kind of letter long needs values rest; do
        case $kind in
        option)
            if [[ $of != - && $of != "$command" ]]; then continue; fi
            if [[ $prev == "$long" || $prev == "$letter" ]] && [[ $needs == needed || $needs$equals == maybe1 ]]; then
                _tidelock_offer "$values" "$cur"
                return
            fi
            if [[ -z $command || $long != --version ]]; then options+=" $long"; fi
            ;;
        words) if [[ $of == "$command" && $letter == "$after" ]]; then offered=$long; fi ;;
        command | topic)
            if [[ $kind == command || $command == help ]]; then commands+=" $of"; fi
            ;;
        esac
    done <<<"$_tidelock_table"
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [[ -z $command || ($command == help && $after == -) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    else
        _tidelock_offer "$offered" "$cur"
    fi
}
complete -F _tidelock tidelock
