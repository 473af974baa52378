/*
 * The scripts' texts and SHA1, which the build makes from their files.
 */
#include "wire/script.h"

#define TL_SCRIPT_ROW(upper, name, text, sha1)                                                     \
    [TL_SCRIPT_##upper] = {{#name, sizeof #name - 1}, {text, sizeof text - 1}, {sha1, 40}},

static const struct {
    tl_bytes name, text, sha1;
} scripts[TL_SCRIPTS] = {
#include "scripts.inc"
};

tl_bytes tl__script_name(tl_script script) {
    return scripts[script].name;
}

tl_bytes tl__script_text(tl_script script) {
    return scripts[script].text;
}

tl_bytes tl__script_sha1(tl_script script) {
    return scripts[script].sha1;
}
