#!/bin/bash
# Who may call what of the system: read from the objects of the library, by what each of them imports. So nothing
# escapes it: no macro, no pointer to a function, and no call that nobody has thought of, since a symbol that
# is in no row of the table is refused. Each finding is one line. Usage: tests/lint/seams.sh ROOT OBJECTS
set -u
root=${1:?ROOT} objects=${2:?OBJECTS}

# What for | the files that may, without .c | symbols. A file or a symbol may be a pattern.
table='
clock   | src/ground/clock    | clock_gettime
wait    | src/ground/wait     | ppoll eventfd timerfd_* epoll_* read write close
threads | src/ground/thread   | pthread_* sched_yield sigfillset stat
cancel  | src/ground/cancel   | pthread_setcancelstate pthread_register_cancel pthread_unregister_cancel pthread_unwind_next sigsetjmp
sockets | src/ground/socket   | socket connect send recv shutdown getsockname getpeername getsockopt setsockopt poll close
names   | src/ground/names    | getaddrinfo freeaddrinfo
stay    | src/ground/stay     | dladdr dlopen
random  | src/ground/random   | getrandom uuid_generate_random
vmclock | src/ground/vmclock  | open fstat mmap munmap close
process | src/ground/process  | uname getpid program_invocation_short_name mmap madvise munmap pthread_atfork pthread_mutex_lock pthread_mutex_unlock

libraries that only compute here; of files, OpenSSL reads certificates
replies | src/transport/resp  | redisReader*
JSON    | src/transport/gateway | json_*
HTTP/2  | src/transport/grpc  | nghttp2_*
TLS     | src/transport/tls   | SSL_* BIO_* ERR_* TLS_* X509_* OPENSSL_init_ssl atexit open close
tokens  | src/ground/token    | uuid_unparse_lower

not behind a seam: a private server is a real process in a real directory, whoever looks for it
local   | src/transport/local/local_launch | fork execve _exit waitpid setsid umask fchdir pipe2 dup2 dup3 fcntl
local   | src/transport/local/local_launch | sigaction sigemptyset sigprocmask getpid getrlimit secure_getenv syscall
local   | src/transport/local/local_launch | openat unlinkat stat access flock poll read write close
local   | src/transport/local/local_dir    | open openat mkdir renameat stat fstat fstatat flock pread close
local   | src/transport/local/local_dir    | geteuid socket bind getsockopt
local   | src/transport/local/local        | openat flock socket connect send recv poll close
and a program of the public header alone, which has threads and a process of its own
shim    | compat/distribute_lock_util      | pthread_mutex_* getpid tls_get_addr clock_gettime
shim    | compat/distribute_lock_util src/simple | pthread_register_cancel pthread_unregister_cancel pthread_unwind_next sigsetjmp

memory, which the rooms of step machines do without
memory  | src/client/* src/transport/* compat/runtime/* compat/phase/phase_names compat/distribute_lock_util | malloc calloc realloc free strdup

and what computes
any     | *                   | mem* str[!d]* bcmp explicit_bzero snprintf vsnprintf errno_location ctype_* inet_pton gai_strerror
built   | *                   | _GLOBAL_OFFSET_TABLE_ stack_chk_fail aarch64_* asan_* ubsan_* tsan_* sanitizer_* gcov_* llvm_*
'

status=0
complain() { # file, rule
    echo "$1: $2"
    status=1
}

files=() symbols=()
while IFS='|' read -r _ where what; do
    [[ -n $what ]] && files+=("$where") && symbols+=("$what")
done <<<"$table"
set -f # patterns stay patterns

is_one_of() { # name, patterns...
    local name=$1 pattern
    shift
    # shellcheck disable=SC2053
    for pattern; do [[ $name == $pattern ]] && return; done
    return 1
}

judge() { # file without .c, symbol
    local i owners=()
    for i in "${!files[@]}"; do
        # shellcheck disable=SC2086
        is_one_of "$2" ${symbols[i]} || continue
        # shellcheck disable=SC2086
        is_one_of "$1" ${files[i]} && return
        # shellcheck disable=SC2206
        owners+=(${files[i]})
    done
    if [[ -z ${owners[*]} ]]; then
        complain "$1.c" "calls $2, which no row of tests/lint/seams.sh lets anybody call"
    else
        complain "$1.c" "calls $2, which belongs to ${owners[*]}"
    fi
}

# The checked forms of the same functions (__read_chk), those for files of any size (open64), and names that the compiler
# uses, are without what was added to them.
imports() { nm -u "$1" | sed -n 's/^ *[Uw] //p' | sed 's/^__isoc[0-9]*_//; s/^__\(.*\)_chk$/\1/; s/^__//; s/@.*//; s/64$//' | sort -u; }

while IFS= read -r file; do
    file=${file#"$root"/} file=${file%.c}
    if [[ ! -e $objects/$file.o ]]; then
        [[ $file == compat/* && ! -d $objects/compat ]] || complain "$file.c" "has no object in $objects: make lib"
        continue
    fi
    while IFS= read -r symbol; do
        [[ $symbol == tl_* ]] || judge "$file" "$symbol"
    done < <(imports "$objects/$file.o")
done < <(find "$root/src" "$root/compat" -name '*.c' -not -path '*/examples/*' 2>/dev/null | sort)

exit $status
