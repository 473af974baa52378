/*
 * The Lua interpreter in the fake server: compiled scripts, running one, and turning replies into
 * Lua values and back as Redis does. What scripts can see is laid out in fake_lua_world.c.
 */
#include "fake_lua.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>

#define DEEPEST 1000 /* nested tables in a reply */
#define CHUNK_NAME "@user_script"

/* ---- compiled scripts ------------------------------------------------------------------------ */

fake_lua *fake__lua_new(void) {
    fake_lua *lua = fake__alloc(NULL, sizeof(*lua));
    memset(lua, 0, sizeof(*lua));
    lua->refs = 1;
    return lua;
}

fake_lua *fake__lua_share(fake_lua *lua) {
    lua->refs++;
    return lua;
}

void fake__lua_free(fake_lua *lua) {
    if (--lua->refs > 0) {
        return;
    }
    if (lua->L) {
        lua_close(lua->L);
    }
    fake__lua_memory_free(&lua->memory);
    fake__dict_free(&lua->by_text);
    free(lua->script);
    free(lua);
}

const char *fake__lua_sha(const fake_lua *lua, uint32_t number) {
    return lua->script[number].sha;
}

/* ---- a reply as a Lua value ------------------------------------------------------------------ */

static void push_field(lua_State *L, const char *field, tl_bytes text) {
    lua_createtable(L, 0, 1);
    lua_pushlstring(L, text.p, text.n);
    lua_setfield(L, -2, field);
}

void fake__lua_push(lua_State *L, const tl_reply *reply) {
    switch (reply->type) {
    case TL_REPLY_NIL: lua_pushboolean(L, 0); break;
    case TL_REPLY_INT: lua_pushnumber(L, (lua_Number)reply->integer); break;
    case TL_REPLY_STRING: lua_pushlstring(L, reply->text.p, reply->text.n); break;
    case TL_REPLY_STATUS: push_field(L, "ok", reply->text); break;
    case TL_REPLY_ERROR: push_field(L, "err", reply->text); break;
    case TL_REPLY_ARRAY:
        luaL_checkstack(L, 4, "a reply too deep");
        lua_createtable(L, (int)reply->count, 0);
        for (size_t i = 0; i < reply->count; i++) {
            fake__lua_push(L, &reply->items[i]);
            lua_rawseti(L, -2, (int)i + 1);
        }
        break;
    }
}

/* ---- a Lua value as a reply ------------------------------------------------------------------ */

static int64_t truncated(lua_Number v) {
    return v > -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
}

/* The string field of the table on top, or NULL. It stays valid while the table is. */
static const char *field(lua_State *L, const char *name) {
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1);
    return text;
}

static void to_reply(lua_State *L, fake_conn *c, int depth, tl_reply *out);

static void table_to_reply(lua_State *L, fake_conn *c, int depth, tl_reply *out) {
    const char *err = field(L, "err"), *ok = err ? NULL : field(L, "ok");
    if (err || ok) {
        fake__errorf(c, out, "%s", err ? err : ok);
        out->type = err ? TL_REPLY_ERROR : TL_REPLY_STATUS;
        return;
    }
    size_t n = 0;
    for (bool more = true; more; n += more) {
        lua_rawgeti(L, -1, (int)n + 1);
        more = !lua_isnil(L, -1);
        lua_pop(L, 1);
    }
    tl_reply *items = fake__array(c, out, n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (int)i + 1);
        to_reply(L, c, depth + 1, &items[i]);
        lua_pop(L, 1);
    }
}

/* The value on top, which stays there. */
static void to_reply(lua_State *L, fake_conn *c, int depth, tl_reply *out) {
    size_t n;
    const char *p;
    if (depth > DEEPEST || !lua_checkstack(L, 4)) {
        fake__error(out, "ERR reached lua stack limit");
        return;
    }
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        p = lua_tolstring(L, -1, &n);
        fake__string(c, out, tl__bytes(p, n));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1)) {
            fake__int(out, 1);
        } else {
            fake__nil(out);
        }
        break;
    case LUA_TNUMBER: fake__int(out, truncated(lua_tonumber(L, -1))); break;
    case LUA_TTABLE: table_to_reply(L, c, depth, out); break;
    default: fake__nil(out);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Notes where the error rose, and makes it a table {err = text}, or below 7.0 a text. */
static int on_error(lua_State *L) {
    fake_lua *lua = lua_touserdata(L, lua_upvalueindex(1));
    fake_scripted *s = lua->running;
    lua_Debug at;
    bool known = lua_getstack(L, 1, &at) && lua_getinfo(L, "Sl", &at);
    if (known && strcmp(at.what, "C") == 0) {
        known = lua_getstack(L, 2, &at) && lua_getinfo(L, "Sl", &at);
    }
    if (known) {
        snprintf(s->source, sizeof(s->source), "%s", at.source);
        s->line = at.currentline;
    }
    if (!lua_istable(L, 1)) {
        lua_getglobal(L, "tostring");
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        bool new = s->conn->r->level >= FAKE_LEVEL(7, 0, 0);
        lua_pushfstring(L, "%s%s", new ? "ERR " : "", lua_tostring(L, -1));
        push_field(L, "err", tl__bytes_of(lua_tostring(L, -1)));
    }
    return 1;
}

static void error_to_reply(lua_State *L, const fake_scripted *s, tl_reply *out) {
    const char *text = lua_istable(L, -1) ? field(L, "err") : NULL;
    fake_conn *c = s->conn;
    if (c->r->level < FAKE_LEVEL(7, 0, 0)) {
        if (s->source[0] && c->r->level >= FAKE_LEVEL(2, 8, 0)) {
            fake__errorf(c, out, "ERR Error running script (call to f_%s): %s:%d: %s", s->sha,
                         s->source, s->line, text ? text : "(null)");
        } else {
            fake__errorf(c, out, "ERR Error running script (call to f_%s): %s", s->sha,
                         text ? text : "(null)");
        }
    } else if (!lua_istable(L, -1)) {
        const char *plain = lua_isstring(L, -1) ? lua_tostring(L, -1) : "execution failure";
        fake__errorf(c, out, "ERR Error running script %s, %.100s", s->sha, plain);
    } else if (s->source[0]) {
        fake__errorf(c, out, "%s script: %s, on %s:%d.", text ? text : "(null)", s->sha, s->source,
                     s->line);
    } else {
        fake__errorf(c, out, "%s", text ? text : "(null)");
    }
}

bool fake__lua_compile(fake_lua *lua, fake_conn *c, tl_bytes text, uint32_t *ret, tl_reply *out) {
    fake_entry *known = fake__dict_find(&lua->by_text, text);
    if (known) {
        *ret = known->v.number;
        return true;
    }
    if (!lua->L) {
        fake__lua_world(lua);
        lua_pushlightuserdata(lua->L, lua);
        lua_pushcclosure(lua->L, on_error, 1);
        lua->on_error = luaL_ref(lua->L, LUA_REGISTRYINDEX);
    }
    if (luaL_loadbuffer(lua->L, text.p, text.n, CHUNK_NAME)) {
        fake__errorf(c, out, "ERR Error compiling script (new function): %s",
                     lua_tostring(lua->L, -1));
        lua_settop(lua->L, 0);
        return false;
    }
    if (lua->count == lua->room) {
        lua->room = lua->room ? lua->room * 2 : 16;
        lua->script = fake__alloc(lua->script, lua->room * sizeof(*lua->script));
    }
    *ret = lua->count++;
    lua->script[*ret].ref = luaL_ref(lua->L, LUA_REGISTRYINDEX);
    fake__sha1(text, lua->script[*ret].sha);
    fake__dict_add(&lua->by_text, text, NULL)->v.number = *ret;
    return true;
}

static void push_list(lua_State *L, const tl_bytes *items, size_t n) {
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushlstring(L, items[i].p, items[i].n);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

void fake__lua_run(fake_lua *lua, fake_conn *c, uint32_t number, const tl_bytes *keys, size_t nkeys,
                   const tl_bytes *args, size_t nargs, tl_reply *out) {
    fake_scripted s = {.conn = c, .oom = c->r->oom, .keys = keys, .nkeys = nkeys};
    lua_State *L = lua->L;
    int db = c->db;
    memcpy(s.sha, lua->script[number].sha, sizeof(s.sha));
    lua->running = &s;
    fake__lua_world_ready(lua, c->r);
    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->base);
    push_list(L, keys, nkeys);
    lua_setfield(L, -2, "KEYS");
    push_list(L, args, nargs);
    lua_setfield(L, -2, "ARGV");
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->on_error);
    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->script[number].ref);
    if (lua_pcall(L, 0, 1, 1)) {
        error_to_reply(L, &s, out);
    } else {
        to_reply(L, c, 0, out);
    }
    lua_settop(L, 0);
    lua->running = NULL;
    c->db = db;
}
