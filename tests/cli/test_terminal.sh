#!/bin/bash
# run on a terminal: the command is in the foreground, Ctrl-C and Ctrl-Z reach it, once, and the shell sees
# what became of it as if tidelock weren't there.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
cat >"$work/terminal.py" <<'PY'
"""A session of bash with job control on a terminal of its own, and what is typed there."""
import os, pty, re, select, signal, subprocess, sys, time

tidelock, work, slow = sys.argv[1], sys.argv[2], int(sys.argv[3])
pid, tty = pty.fork()
if pid == 0:
    os.environ.update(PS1="", PS2="", TERM="dumb", HISTFILE="", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])

screen = ""
def see(pattern, seconds=60):
    """Wait for the pattern; return its match, and forget the screen up to it."""
    global screen
    end = time.time() + seconds * slow
    while True:
        found = re.search(pattern, screen)
        if found:
            screen = screen[found.end():]
            return found
        left = end - time.time()
        if left <= 0 or not select.select([tty], [], [], left)[0]:
            sys.exit("no %r on the screen: %r" % (pattern, screen[-500:]))
        try:
            screen += os.read(tty, 4096).decode(errors="replace")
        except OSError:
            sys.exit("the terminal is gone, and no %r: %r" % (pattern, screen[-500:]))
def type_in(text):
    os.write(tty, text.encode())
def state(process):
    with open("/proc/%s/stat" % process) as f:
        return f.read().rsplit(") ", 1)[1].split()[0]
def both(one, other):
    """Wait for both, whichever comes first; return the group of each."""
    found = see("%s|%s" % (one, other))
    if found.group(1):
        return found.group(1), see(other).group(1)
    return see(one).group(1), found.group(2)
def asked(*words):
    return subprocess.run([tidelock, *words], stdout=subprocess.PIPE).stdout
def until(what, text, seconds=60):
    end = time.time() + seconds * slow
    while not what():
        if time.time() > end:
            sys.exit(text)
        time.sleep(0.02)

type_in("stty -echo; echo rea''dy\n")
see("ready")

# The command reads the keyboard, and sees itself in the foreground.
type_in("%s run k -- sh -c 'echo star''ted; read word; echo \"got <$word>\"; ps -o pgid=,tpgid= -p $$'; echo \"status $?\"\n" % tidelock)
see("started")
type_in("hello\n")
see("got <hello>")
groups = see(r"(\d+)\s+(\d+)\s")
if groups.group(1) != groups.group(2):
    sys.exit("the command is not in the foreground: %s" % groups.group(0))
see("status 0")

# Ctrl-C reaches the command, once. The shell has its terminal back, and a list or a loop goes no further.
def ended(status):
    type_in('echo "status $?"\n')
    see("status %d" % status)
type_in("%s run k -- sh -c 'echo star''ted; exec sleep 600'; echo went''on\n" % tidelock)
see("started")
type_in("\x03")
ended(130)
type_in("for i in 1 2 3; do %s run k -- sh -c 'echo star''ted; exec sleep 600'; done\n" % tidelock)
see("started")
type_in("\x03")
ended(130)
if "wenton" in screen or "started" in screen:
    sys.exit("went on after Ctrl-C: %r" % screen)
# It writes past print: the signal may come while that is still inside.
type_in("%s run k -- python3 -c 'import os, signal, time; n = []; signal.signal(2, lambda *a: (n.append(1), os.write(1, b\"in\" b\"terrupt \"))); print(\"rea\" \"dy\", flush=True); [time.sleep(0.02) for _ in iter(lambda: bool(n), True)]; time.sleep(1); print(\"do\" \"ne\")'; echo \"status $?\"\n" % tidelock)
see("ready")
type_in("\x03")
see("interrupt")
if "interrupt" in see("[^$]*done").group(0):
    sys.exit("Ctrl-C reached the command twice")
see("status 0")

# Ctrl-C ends --forever.
type_in("%s run --forever k -- sh -c 'echo star''ted; exec sleep 600'\n" % tidelock)
see("started")
type_in("\x03")
ended(130)

# Ctrl-C also reaches a command that has left our process group, as timeout does.
type_in("%s run k -- timeout 600 sh -c 'echo star''ted; exec sleep 600'\n" % tidelock)
see("started")
type_in("\x03")
type_in("echo she''ll\n")
see("shell")

# Ctrl-C while it waits for the lock.
type_in("%s run k -- sh -c 'echo star''ted; exec sleep 600' &\n" % tidelock)
see("started")
type_in("%s run k -- echo never; echo went''on\n" % tidelock)
until(lambda: b'"waiters":1,' in asked("check", "--json", "k"), "nobody waits for the lock")
type_in("\x03")
ended(130)
type_in("kill %1; wait; echo wai''ted\n")
see("waited")
if "wenton" in screen:
    sys.exit("went on after Ctrl-C: %r" % screen)

# Ctrl-Z stops both, fg continues both, and the command keeps the keyboard.
type_in("%s run -t 10m k -- sh -c 'echo pid $$; read word; echo \"got <$word>\"'; echo \"status $?\"\n" % tidelock)
command = see(r"pid (\d+)\s").group(1)
type_in("\x1a")
see("status 148|Stopped")
until(lambda: state(command) == "T", "Ctrl-Z did not stop the command")
type_in("echo she''ll; fg\n")
see("shell")
until(lambda: state(command) == "S", "fg did not continue the command")
type_in("again\n")
see("got <again>")
type_in("echo \"status $?\"\n")
see("status 0")

# Stopped for longer than the lifetime: the lock is lost, and the command does not run on.
type_in("%s run -t 10s k -- sh -c 'echo pid $$; read word; echo ran on'; echo \"status $?\"\n" % tidelock)
command = see(r"pid (\d+)\s").group(1)
type_in("\x1a")
see("status 148|Stopped")
until(lambda: asked("check", "k") == b"free\n", "a stopped process keeps its lock")
type_in("fg; echo \"after $?\"\n")
see("after 74")
if "ran on" in screen:
    sys.exit("the command ran on without the lock")

# A stopped job that is killed takes its command along.
type_in("%s run -t 10m k -- sh -c 'echo pid $$; exec sleep 600'\n" % tidelock)
command = see(r"pid (\d+)\s").group(1)
type_in("\x1a")
see("Stopped")
type_in("kill %1\n")
until(lambda: not os.path.exists("/proc/" + command), "the command outlives a killed job")

# In the background it does not take the terminal; reading there stops it, until fg.
type_in("%s run -t 10m k -- sh -c 'echo pid $$; read word; echo \"got <$word>\"' &\necho job $!\n" % tidelock)
job, command = both(r"job (\d+)\s", r"pid (\d+)\s")
until(lambda: state(command) == "T" and state(job) == "T", "reading in the background did not stop it")
type_in("echo she''ll\n")
see("shell")
type_in("jobs\n")
while see("Stopped|Running").group(0) == "Running":  # the shell may not have looked yet
    type_in("jobs\n")
type_in("fg\n")
until(lambda: state(command) == "S", "fg did not continue the command")
type_in("third\n")
see("got <third>")
type_in("exit\n")
os.waitpid(pid, 0)
PY
timeout -k 5 $((500 * slow)) "$python" "$work/terminal.py" "$tidelock" "$work" $slow >"$out" 2>"$err" ||
    fail "terminal: status $?: $(cat "$out")"
