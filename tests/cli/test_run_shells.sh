#!/bin/bash
# run in the shells that people type it into: each row of the table in tidelock-jobs(7), on a terminal of its own.
# What flock(1) does is the measure: a shell should find no difference, but for the lock.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
cat >"$work/shells.py" <<'PY'
"""One shell with job control on a terminal of its own; what is typed, and what comes of it."""
import os, pty, re, select, signal, subprocess, sys, time

shell, tidelock, work, slow = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
argv = {"bash": ["bash", "--norc", "--noprofile", "--noediting", "-i"], "dash": ["dash", "-i"],
        "zsh": ["zsh", "-f", "-i", "+Z", "+o", "promptsp", "+o", "promptcr"]}[shell]
pid, tty = pty.fork()
if pid == 0:
    os.environ.update(PS1="", PS2="", TERM="dumb", HISTFILE="", INPUTRC="/dev/null", ENV="")
    os.execvp(argv[0], argv)

screen = ""
def see(pattern, seconds=60):
    global screen
    end = time.time() + seconds * slow
    while True:
        found = re.search(pattern, screen)
        if found:
            screen = screen[found.end():]
            return found
        left = end - time.time()
        if left <= 0 or not select.select([tty], [], [], left)[0]:
            sys.exit("%s: line %d: no %r on the screen: %r" % (shell, sys._getframe(1).f_lineno, pattern, screen[-500:]))
        screen += os.read(tty, 4096).decode(errors="replace")
def type_in(text):
    os.write(tty, text.encode())
def state(process):
    try:
        with open("/proc/%s/stat" % process) as f:
            return f.read().rsplit(") ", 1)[1].split()[0]
    except OSError:
        return "gone"
def until(what, text, seconds=60):
    end = time.time() + seconds * slow
    while not what():
        if time.time() > end:
            sys.exit("%s: line %d: %s; the screen: %r" % (shell, sys._getframe(1).f_lineno, text, screen[-500:]))
        time.sleep(0.02)
def stopped(process):  # also a shell whose child by vfork() was stopped before it became a program
    return state(process) in "TD"
def free():
    return subprocess.call([tidelock, "check", shell], stdout=subprocess.DEVNULL) == 0
n = 0
def prompt():  # the shell reads commands again
    global n
    n += 1
    type_in("echo at''prompt%d\n" % n)
    see("atprompt%d" % n)
def seen_stopped():  # by the shell: the kernel reports a process as stopped once all of its threads are
    for k in range(10000):
        type_in("jobs; echo jo''bs%d\n" % k)
        if re.search("stopped|suspended", see(r"(?s)^(.*)jobs%d\b" % k).group(1), re.I):
            return
        time.sleep(0.01)
    sys.exit("%s: the shell doesn't report that the job is stopped" % shell)
def script(text):
    with open(work + "/script", "w") as f:
        f.write(text)
    return "%s %s/script\n" % (shell, work)

type_in("stty -echo; echo rea''dy\n")
see("ready")
for who in ("flock %s/file" % work, "%s run -t 10m %s --" % (tidelock, shell)):
    ours = "flock" not in who.split()[0]
    # Ctrl-C ends a script, and a loop at the prompt.
    for typed in (script("%s sh -c 'echo pid $$; exec sleep 600'\necho went on\n" % who),
                  "for i in 1 2 3; do %s sh -c 'echo pid $$; exec sleep 600'; done; echo went''on\n" % who):
        type_in(typed)
        command = see(r"pid (\d+)\s").group(1)
        type_in("\x03")
        until(lambda: state(command) == "gone", "Ctrl-C doesn't end the command")
        prompt()
        if "went" in screen or "pid" in screen:
            sys.exit("%s: went on after Ctrl-C: %r" % (shell, screen))
        if ours and not free():
            sys.exit("%s: the lock is left" % shell)
    # A command that handles Ctrl-C ends as it likes, and the script goes on.
    type_in(script("%s sh -c 'trap \"echo caught; exit 3\" INT; echo pid $$; while :; do sleep 0.1; done'\necho went on with $?\n" % who)
            if ours else script("echo 'pid 1'; sleep 0.1; echo caught; echo went on with 3"))
    see(r"pid (\d+)\s")
    if ours:
        type_in("\x03")
    see("caught")
    if shell == "bash":  # the others end a script whatever its child made of the signal
        see("went on with 3")
    prompt()
    # A pipeline whose other end has the keyboard: nothing is stopped.
    type_in("%s sh -c 'echo pid $$ >&2; exec sleep 600' | sh -c 'read word </dev/tty; echo \"got <$word>\"; exec cat'\n" % who)
    command = see(r"pid (\d+)\s").group(1)
    type_in("hello\n")
    see("got <hello>")
    until(lambda: state(command) in "SR", "the command of a pipeline was stopped")
    # Ctrl-Z and fg: all of the job, and the keyboard again. Then Ctrl-C ends it.
    type_in("\x1a")
    until(lambda: stopped(command), "Ctrl-Z doesn't stop the command")
    prompt()
    type_in("fg\n")
    until(lambda: state(command) in "SR", "fg doesn't continue the command")
    type_in("\x03")
    until(lambda: state(command) == "gone", "Ctrl-C after fg doesn't end the command")
    prompt()
    # In the background it can't read the keyboard until fg.
    type_in("%s sh -c 'echo pid $$; read word; echo \"got <$word>\"' &\n" % who)
    command = see(r"pid (\d+)\s").group(1)
    until(lambda: stopped(command) and stopped(os.getpgid(int(command))), "reading in the background doesn't stop it")
    seen_stopped()
    type_in("fg\n")
    until(lambda: state(command) in "SR", "fg doesn't continue the reader")
    type_in("word\n")
    see("got <word>")
    prompt()
    # Stopped, then continued in the background.
    go = work + ("/go-ours" if ours else "/go")
    type_in("%s sh -c 'echo pid $$; until [ -e %s ]; do sleep 0.05; done; echo fin''ished'\n" % (who, go))
    command = see(r"pid (\d+)\s").group(1)
    type_in("\x1a")
    until(lambda: stopped(command), "Ctrl-Z doesn't stop the command")
    prompt()
    type_in("bg\n")
    open(go, "w").close()
    see("finished")
    type_in("wait\n")
    prompt()

# Stopped for longer than the lifetime: the command is ended when the lock is, and never goes on.
type_in("%s run -t 10s %s -- sh -c 'echo pid $$; until [ -e %s/go-on ]; do sleep 0.05; done; echo ran on'; echo \"ended $?\"\n" % (tidelock, shell, work))
command = see(r"pid (\d+)\s").group(1)
type_in("\x1a")
until(lambda: stopped(command), "Ctrl-Z doesn't stop the command")
until(free, "a stopped job keeps its lock")
if stopped(command):
    sys.exit("%s: the lock is free while the stopped command could go on" % shell)
open(work + "/go-on", "w").close()
type_in("fg; echo \"after $?\"\n")
see("after 74")
if "ran on" in screen:
    sys.exit("%s: the command ran on without the lock" % shell)

# --new-session: no terminal, and Ctrl-Z and Ctrl-C still mean it.
type_in("%s run --new-session -t 10m %s -- sh -c 'echo pid $$; exec sleep 600'\n" % (tidelock, shell))
command = see(r"pid (\d+)\s").group(1)
type_in("\x1a")
until(lambda: stopped(command), "--new-session: Ctrl-Z doesn't stop the command")
prompt()
type_in("fg\n")
until(lambda: state(command) in "SR", "--new-session: fg doesn't continue the command")
type_in("\x03")
until(lambda: state(command) == "gone", "--new-session: Ctrl-C doesn't end the command")
prompt()

# The terminal hangs up.
type_in("%s run %s -- sh -c 'echo pid $$; exec sleep 600'\n" % (tidelock, shell))
command = see(r"pid (\d+)\s").group(1)
os.close(tty)
until(lambda: state(command) == "gone", "a hang-up doesn't end the command")
until(free, "the lock outlives a hang-up")
PY
begin() { # shell: its pid is in the variable of this name
    mkdir "$work/$1"
    { timeout -k 5 $((500 * slow)) "$python" "$work/shells.py" "$1" "$tidelock" "$work/$1" $slow & } >"$work/$1.out" 2>&1
    printf -v "$1" %s $!
}
shells=()
for shell in bash dash zsh; do
    if command -v $shell >/dev/null; then begin $shell && shells+=($shell); else part_skipped "$shell" "$shell is not installed (Debian: $shell)"; fi
done
for shell in "${shells[@]}"; do
    wait "${!shell}" || fail "status $?: $(cat "$work/$shell.out")"
done
