/*
 * Inside fake_tcp: shared by fake_tcp.c, which has its life and knobs, and fake_tcp_serve.c, which
 * has its thread. The mutex guards everything and is free only while the loop waits, so a test that
 * holds it sees the server at rest.
 */
#pragma once

#include <pthread.h>
#include <sys/socket.h>

#include "fake_resp.h"
#include "fake_tcp.h"

#define CLIENTS_MAX 1024
#define NAMES_MAX 64 /* of different commands that are counted */
#define NAME_SIZE 24
#define CYCLE_MS 100 /* how often expired keys are swept, and the longest wait */
#define READ_SIZE 65536

/* A reply on its way. */
typedef struct delivery {
    struct delivery *next;
    int64_t due_ms;
    bool close_after;
    fake_buffer text;
} delivery;

typedef struct {
    int fd;
    fake_tcp *owner;
    fake_conn *conn;
    fake_buffer in;
    delivery *first, *last;
    bool deaf, mute; /* requests are lost; replies are */
    bool dead;       /* to be closed */
} client;

struct fake_tcp {
    pthread_mutex_t mutex;
    pthread_cond_t counted;
    pthread_t thread;
    fake_redis *redis;
    struct sockaddr_storage address;
    socklen_t address_size;
    int listener, wake;
    char url[160], path[108];
    client *clients[CLIENTS_MAX];
    size_t client_count;
    uint64_t accepted;
    struct {
        char name[NAME_SIZE];
        uint64_t count;
    } names[NAMES_MAX];
    uint64_t total;
    int64_t offset_us, delay_ms, next_cycle_ms;
    char *aim;
    int swallow_replies, swallow_requests;
    bool cutting, hold, freeze, stop;
    size_t cut_bytes;
    fake_tcp_door door;
    tl_bytes argv[FAKE_RESP_ARGS_MAX];
};

__attribute__((noreturn)) void fake_tcp__fail(const char *what);
void *fake_tcp__serve(void *ctx); /**< the thread; ctx: the fake_tcp */
void fake_tcp__set_clock(fake_tcp *t);
uint64_t fake_tcp__counted(const fake_tcp *t, const char *name);
void fake_tcp__close_client(fake_tcp *t, size_t i);
void fake_tcp__open_door(fake_tcp *t);
void fake_tcp__close_door(fake_tcp *t);
