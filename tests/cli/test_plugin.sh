#!/bin/bash
# A plug-in that is linked with the static library is closed (dlclose) while the name service hangs: the thread that asks it comes back to code that is still there.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
[[ -z ${SAN:-} ]] || { echo "a plug-in with sanitizers needs a program that has them" && exit 77; }
libs=$(pkg-config --libs hiredis uuid openssl jansson libnghttp2 2>/dev/null) || libs='-lhiredis -luuid -lssl -lcrypto -ljansson -lnghttp2'
cat >"$work/plugin.c" <<'C'
#include <tidelock/tidelock.h>
int use(const char *url) {
    tl_client *client;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .connect_ms = 100);
    if (tl_client_open(&o, &client, 0))
        return -1;
    int code = tl_client_ping(client, 0);
    tl_client_close(client);
    return code;
}
C
cat >"$work/host.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
static atomic_int asked, goes_on;
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
    (void)host, (void)service, (void)ret;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    atomic_store(&asked, 1);
    while (!atomic_load(&goes_on))
        (void)poll(NULL, 0, 1);
    return EAI_AGAIN;
}
static unsigned threads(void) {
    struct stat s;
    return stat("/proc/self/task", &s) == 0 ? (unsigned)s.st_nlink - 2 : 0;
}
int main(int argc, char **argv) {
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*use)(const char *) = plugin ? (int (*)(const char *))dlsym(plugin, "use") : NULL;
    if (!use)
        return puts(dlerror()), 1;
    int code = use("redis://name.example:1");
    for (int i = 0; i < 60000 && !atomic_load(&asked); i++) /* its thread may not have come to it yet */
        (void)poll(NULL, 0, 1);
    if (!atomic_load(&asked))
        return printf("no name was asked for: %d\n", code), 1;
    if (dlclose(plugin))
        return puts(dlerror()), 1;
    atomic_store(&goes_on, 1);
    for (int i = 0; i < 60000 && threads() > 1; i++)
        (void)poll(NULL, 0, 1);
    return printf("%u thread\n", threads()), 0;
}
C
# shellcheck disable=SC2086
"${CC:-cc}" -shared -fPIC -O1 "-I$here/include" "$work/plugin.c" "$here/${BUILD:-build}/libtidelock.a" $libs -ldl -lm -pthread -o "$work/plugin.so" 2>"$err" ||
    fail "$(head -20 "$err")"
"${CC:-cc}" -O1 -rdynamic "$work/host.c" -ldl -pthread -o "$work/host" 2>"$err" || fail "$(head -20 "$err")"
"$work/host" "$work/plugin.so" >"$out" 2>"$err" || fail "status $?: $(cat "$out")"
[[ $(cat "$out") == '1 thread' ]] || fail "$(cat "$out")"
