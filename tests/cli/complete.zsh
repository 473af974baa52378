# Print what zsh offers behind a line, one a line: zsh -f complete.zsh FOLDER LINE. FOLDER has the completion as
# _tidelock. It is asked as its user would: by a key, in a terminal.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' verbose no
compadd() {
    if [[ \${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
        local -a offered
        local one
        builtin compadd -A offered \"\$@\"
        print
        for one in \$offered; do print -r -- \"OFFERED:\$one\"; done
    fi
    builtin compadd \"\$@\"
}
offer() { zle complete-word; print; print 'END''ED'; BUFFER=; zle accept-line }
zle -N offer
bindkey '^I' offer
print REA''DY"
while zpty -r shell line; do [[ $line != *READY* ]] || break; done
zpty -w -n shell "$2"$'\t'
while zpty -r shell line; do
    line=${line%%$'\r'*}
    [[ $line != *ENDED* ]] || break
    [[ $line != *OFFERED:* ]] || print -r -- ${line##*OFFERED:}
done
zpty -d shell
