#compdef tidelock
# Completion of tidelock in zsh. The table lists all commands, words and options. It is the output of
# `tidelock help options`, which make inserts here.
local table
IFS= read -r -d '' table <<'END'
@TABLE@
END

# Sets REPLY to the action of _arguments for a list of values: a word in lower case as it is, for D durations, for FILE files.
_tidelock_values() { # list
    local word
    local -a offered
    for word in ${=1}; do
        case $word in
        (D) offered+=(500ms 5s 30s 5m 1h) ;;
        (URL) offered+=(redis:// rediss:// redis+sentinel:// redis+cluster:// redis+quorum:// etcd:// unix:// local:) ;;
        (FILE*|SOCKET) REPLY=_files; return ;;
        ([A-Z-]*) ;;
        (*) offered+=($word) ;;
        esac
    done
    REPLY=' '
    if (( $#offered )); then REPLY="(${offered//:/\\:})"; fi
}

# Sets specs to the specifications of a command's options.
_tidelock_specs() { # command
    local line help spec REPLY
    local -a part
    specs=()
    for line in ${(f)table}; do
        part=("${(@ps:\t:)line}")
        if [[ $part[1] != option || ( $part[2] != - && $part[2] != $1 ) ]]; then continue; fi
        if [[ $1 != - && $part[4] == --version ]]; then continue; fi
        help=${part[7]//(#m)[\[\]:]/\\$MATCH}
        _tidelock_values $part[6]
        case $part[5] in
        (none) spec="[$help]" ;;
        (needed) spec="=[$help]:value:$REPLY" ;;
        (maybe) spec="=-[$help]::value:$REPLY" ;;
        esac
        specs+=("*$part[4]$spec")
        if [[ $part[3] != - ]]; then specs+=("*$part[3]${spec/#=/+}"); fi
    done
}

_tidelock() {
    setopt localoptions extendedglob
    local line state command REPLY n=1
    local -a specs part commands
    local curcontext=$curcontext
    for line in ${(f)table}; do
        part=("${(@ps:\t:)line}")
        if [[ $part[1] == command ]]; then commands+=("$part[2]:$part[4]"); fi
    done
    _tidelock_specs -
    _arguments -C $specs '1:command:->command' '*::argument:->argument' && return
    if [[ $state == command ]]; then
        _describe -t commands command commands
        return
    fi
    command=$words[1]
    _tidelock_specs $command
    for line in ${(f)table}; do
        part=("${(@ps:\t:)line}")
        if [[ $part[1] == topic ]]; then commands+=("$part[2]:$part[4]"); fi
        if [[ $part[1] != words || $part[2] != $command ]]; then continue; fi
        if [[ $part[3] != - && $words[n] != $part[3] ]]; then continue; fi
        _tidelock_values $part[4]
        specs+=("${n}:argument:$REPLY")
        (( n++ ))
    done
    case $command in
    (help) _describe -t commands command commands ;;
    (run)
        # The words after "--" are another command.
        if (( $words[(I)--] && $words[(I)--] < CURRENT )); then
            n=$words[(I)--]
            shift $n words
            (( CURRENT -= n ))
            _normal
        else
            _arguments $specs
        fi
        ;;
    (*) _arguments $specs ;;
    esac
}

_tidelock "$@"
