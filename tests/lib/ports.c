/*
 * Claims ports. It must never return one that another living test has claimed.
 */
#include "ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* With those 10000 above them below 32768, where Linux begins to give ports to clients; others, from 20000 and from 30000 on, are the demo's
 * (tools/lock/local_demo.c). */
#define FIRST 12800
#define COUNT 7200

/* The file's lock lasts as long as the descriptor, which nobody closes. */
static bool claim(int port) {
    char path[96];
    (void)snprintf(path, sizeof path, "/tmp/tidelock-ports-%u", (unsigned)getuid());
    (void)mkdir(path, S_IRWXU);
    (void)snprintf(path, sizeof path, "/tmp/tidelock-ports-%u/%d", (unsigned)getuid(), port);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true; // cppcheck-suppress resourceLeak ; the descriptor is the claim
    (void)close(fd);
    return false;
}

static bool is_free(int port) {
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ret = fd >= 0 && bind(fd, (const struct sockaddr *)&in, sizeof in) == 0;
    if (fd >= 0)
        (void)close(fd);
    return ret;
}

int ports_claim(void) {
    unsigned start = 0;
    if (getrandom(&start, sizeof start, 0) < 0)
        start = (unsigned)getpid() * 37;
    for (unsigned i = 0; i < COUNT; i++) {
        int port = FIRST + (int)((start + i) % COUNT);
        if (claim(port) && is_free(port))
            return port;
    }
    (void)fprintf(stderr, "no port from %d to %d is free\n", FIRST, FIRST + COUNT - 1);
    exit(1);
}
