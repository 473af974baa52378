#compdef tidelock
# Completion of tidelock in zsh. What can be typed stands in the table, as `tidelock help options` prints it: make puts
# it here.
local table
IFS= read -r -d '' table <<'END'
@TABLE@
END

# What _arguments is told of a list of values: words as they are, D durations, FILE files.
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

# The specifications of a command's options, in specs.
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
        # What follows "--" is a command of its own.
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
