/*
 * Memory in blocks. Once the first block exists, most replies need no further one.
 */
#include "transport/reply_room.h"

#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "wire/etcd.h"

#define MESSAGE_MAX 200
#define ALIGN 16
#define BLOCK_SIZE 2048

struct tl_reply_block {
    struct tl_reply_block *next;
    size_t size, used;
    _Alignas(ALIGN) char bytes[];
};

static void free_all(tl_reply_block *block) {
    for (tl_reply_block *next; block; block = next) {
        next = block->next;
        free(block);
    }
}

void tl__reply_room_free(tl_reply_room *room) {
    free_all(room->blocks);
    *room = (tl_reply_room){0};
}

/* The oldest block is the last. */
void tl__reply_room_release(tl_reply_room *room) {
    tl_reply_block *block = room->blocks;
    while (block && block->next) {
        tl_reply_block *next = block->next;
        free(block);
        block = next;
    }
    if (block)
        block->used = 0;
    room->blocks = block;
    room->held = block ? block->size : 0;
    room->exhausted = room->full = false;
    if (block && block->size > BLOCK_SIZE)
        tl__reply_room_free(room);
}

void *tl__reply_room_take(tl_reply_room *room, size_t n) {
    tl_reply_block *block = room->blocks;
    size_t need = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (!block || need > block->size - block->used) {
        size_t size = need > BLOCK_SIZE ? need : BLOCK_SIZE;
        if (size > TL_REPLY_ROOM_MAX - room->held && GUARD(replies_have_a_limit)) {
            room->full = true;
            return NULL;
        }
        block = malloc(sizeof *block + size);
        if (!block) {
            room->exhausted = true;
            return NULL;
        }
        *block = (tl_reply_block){.next = room->blocks, .size = size};
        room->blocks = block;
        room->held += size;
    }
    void *taken = block->bytes + block->used;
    block->used += need;
    return taken;
}

bool tl__reply_make_text(tl_reply_room *room, tl_bytes text, tl_reply *ret) {
    char *to = tl__reply_room_take(room, text.n + 1);
    if (!to)
        return false;
    if (text.n > 0)
        memcpy(to, text.p, text.n);
    *ret = (tl_reply){.type = TL_REPLY_STRING, .text = {to, text.n}};
    return true;
}

bool tl__reply_make_error(tl_reply_room *room, int64_t code, tl_bytes message, tl_reply *ret) {
    char text[MESSAGE_MAX + 32];
    int n = snprintf(text, sizeof text, TL_ETCD_ERROR "%lld ", (long long)code);
    size_t most = message.n < MESSAGE_MAX ? message.n : MESSAGE_MAX;
    if (most > 0)
        memcpy(text + n, message.p, most);
    if (!tl__reply_make_text(room, tl__bytes(text, (size_t)n + most), ret))
        return false;
    ret->type = TL_REPLY_ERROR;
    return true;
}

bool tl__reply_make_array(tl_reply_room *room, size_t n, tl_reply **ret_items, tl_reply *ret) {
    *ret_items = tl__reply_room_take(room, (n ? n : 1) * sizeof **ret_items);
    if (!*ret_items)
        return false;
    *ret = (tl_reply){.type = TL_REPLY_ARRAY, .items = *ret_items, .count = n};
    for (size_t i = 0; i < n; i++)
        (*ret_items)[i] = (tl_reply){.type = TL_REPLY_NIL};
    return true;
}
