/*
 * The texts of the scripts and their SHA1; the build generates both from their files.
 */
#include "wire/script.h"

#include "ground/guard.h"

#define TL_SCRIPT_ROW(upper, name, text, sha1)                                                     \
    [TL_SCRIPT_##upper] = {{#name, sizeof #name - 1}, {text, sizeof text - 1}, {sha1, 40}},

static const struct {
    tl_bytes name, text, sha1;
} scripts[TL_SCRIPTS] = {
#include "scripts.inc"
};

#ifdef TL_GUARDS
#define TL_SCRIPT_WITHOUT(upper, guard, text, sha1)                                                \
    {TL_SCRIPT_##upper, #guard, {text, sizeof text - 1}, {sha1, 40}},

static const struct {
    tl_script script;
    const char *guard;
    tl_bytes text, sha1;
} without[] = {
#include "scripts_without.inc"
};

#define INSTEAD(of, what)                                                                          \
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)                                  \
        if (without[i].script == (of) && !tl__guard(without[i].guard))                             \
            return without[i].what;
#else
#define INSTEAD(of, what)
#endif

tl_bytes tl__script_name(tl_script script) {
    return scripts[script].name;
}

tl_bytes tl__script_text(tl_script script) {
    INSTEAD(script, text)
    return scripts[script].text;
}

tl_bytes tl__script_sha1(tl_script script) {
    INSTEAD(script, sha1)
    return scripts[script].sha1;
}
