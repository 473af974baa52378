# Completion of tidelock in fish. The table lists all commands, words and options. It is the output of
# `tidelock help options`, which make inserts here, escaped for single quotes.
set -l table '
@TABLE@
'

# The words before the cursor that are neither options nor their values: the command and its words.
function __tidelock_words
    set -l valued $__tidelock_valued
    set -l skip
    for word in (commandline -opc)[2..-1]
        if set -q skip[1]
            set skip
        else if test "$word" = --
            echo -- $word
        else if string match -q -- '-*' $word
            if contains -- $word $valued
                set skip 1
            end
        else
            echo -- $word
        end
    end
end
# Is this the command, and `after` its last word so far ("-": none)?
function __tidelock_at # command [after]
    set -l words (__tidelock_words)
    if contains -- -- $words; and test "$words[1]" = run
        return 1
    end
    if test "$argv[1]" = -
        test (count $words) -eq 0
    else if test "$argv[2]" = -
        test "$words[1]" = $argv[1] -a (count $words) -eq 1
    else if set -q argv[2]
        test "$words[1]" = $argv[1] -a (count $words) -gt 1 -a "$words[-1]" = "$argv[2]"
    else
        test "$words[1]" = $argv[1]
    end
end
# Is the cursor after "--", in another command?
function __tidelock_runs
    set -l words (__tidelock_words)
    test "$words[1]" = run; and contains -- -- $words
end
function __tidelock_subcommand
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-2]) $words[-1])
end

function __tidelock_offer # a list of values: a word in lower case as it is, for D durations
    for word in (string split ' ' -- $argv[1])
        switch $word
            case D
                printf '%s\n' 500ms 5s 30s 5m 1h
            case URL
                printf '%s\n' redis:// rediss:// redis+sentinel:// redis+cluster:// redis+quorum:// etcd:// unix:// local:
            case '*'
                if string match -qr '^[a-z0-9]' -- $word
                    echo $word
                end
        end
    end
end

complete -c tidelock -f
complete -c tidelock -n __tidelock_runs -a '(__tidelock_subcommand)'
set -g __tidelock_valued
for line in (string split \n -- $table)
    set -l part (string split \t -- $line)
    switch "$part[1]"
        case command
            complete -c tidelock -n '__tidelock_at -' -a $part[2] -d $part[4]
            complete -c tidelock -n '__tidelock_at help -' -a $part[2] -d $part[4]
        case topic
            complete -c tidelock -n '__tidelock_at help -' -a $part[2] -d $part[4]
        case words
            if string match -q 'FILE*' -- $part[4]
                complete -c tidelock -n "__tidelock_at $part[2] $part[3]" -F
            else
                complete -c tidelock -n "__tidelock_at $part[2] $part[3]" -a $part[4]
            end
        case option
            set -l names -l (string sub -s 3 -- $part[4])
            if test "$part[3]" != -
                set -a names -s (string sub -s 2 -- $part[3])
            end
            if test "$part[5]" = needed
                set -a __tidelock_valued $part[4] $part[3]
            end
            set -l where "__tidelock_at $part[2]"
            # Options of every command are offered after each command, too.
            if test "$part[2]" = - -a "$part[4]" != --version
                set where 'not __tidelock_runs'
            end
            set -l takes
            if test "$part[5]" = maybe
                set takes -a "$(__tidelock_offer $part[6] | string join ' ')" # only after '='
            else if test "$part[5]" = needed
                set takes -x -a "$(__tidelock_offer $part[6] | string join ' ')"
                if string match -qr '^(FILE|SOCKET)' -- $part[6]
                    set takes -r -F
                end
            end
            complete -c tidelock -n $where $names $takes -d $part[7]
    end
end
