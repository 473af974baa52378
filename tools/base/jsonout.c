/*
 * A writer of JSON, as small as our output allows: one line. Whatever bytes a key has,
 * the line is valid: what is no UTF-8 is written byte by byte as \u00XX.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonout.h"

static void begin(json *j, char bracket) {
    *j = (json){.text = NULL};
    j->out = open_memstream(&j->text, &j->len);
    if (j->out)
        (void)fputc(bracket, j->out);
}

void json_begin(json *j) {
    begin(j, '{');
}

void json_begin_list(json *j) {
    begin(j, '[');
}

void json_item(json *j) {
    if (j->out)
        (void)fputs(j->comma ? ",{" : "{", j->out);
    j->comma = false;
}

/* Length of the UTF-8 sequence that starts here; 0 when none does. */
static size_t utf8_len(const unsigned char *s) {
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    unsigned long point = len == 1 ? s[0] : s[0] & (0xffU >> (len + 1));
    static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};

    if (s[0] >= 0x80 && (s[0] < 0xc2 || s[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) /* the final NUL too ends it here */
            return 0;
        point = point << 6 | (s[i] & 0x3f);
    }
    if (point < least[len] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return len;
}

/* The text ends with a zero byte behind its length. */
static void quoted(FILE *out, const char *text, size_t text_len) {
    const unsigned char *s = (const unsigned char *)text, *end = s + text_len;

    (void)fputc('"', out);
    while (s < end) {
        size_t len = utf8_len(s);
        if (*s == '"' || *s == '\\')
            (void)fprintf(out, "\\%c", *s);
        else if (len == 0 || *s < 0x20 || *s == 0x7f)
            (void)fprintf(out, "\\u%04x", *s);
        else
            (void)fwrite(s, 1, len, out);
        s += len ? len : 1;
    }
    (void)fputc('"', out);
}

static bool member(json *j, const char *name) {
    if (!j->out)
        return false;
    if (j->comma)
        (void)fputc(',', j->out);
    j->comma = true;
    quoted(j->out, name, strlen(name));
    (void)fputc(':', j->out);
    return true;
}

void json_text(json *j, const char *name, const char *value) {
    if (!value)
        json_null(j, name);
    else
        json_bytes(j, name, value, strlen(value));
}

void json_bytes(json *j, const char *name, const char *value, size_t len) {
    if (member(j, name))
        quoted(j->out, value, len);
}

void json_bool(json *j, const char *name, bool value) {
    if (member(j, name))
        (void)fputs(value ? "true" : "false", j->out);
}

void json_int(json *j, const char *name, int64_t value) {
    if (member(j, name))
        (void)fprintf(j->out, "%lld", (long long)value);
}

void json_null(json *j, const char *name) {
    if (member(j, name))
        (void)fputs("null", j->out);
}

void json_known(json *j, const char *name, int64_t value) {
    if (value < 0)
        json_null(j, name);
    else
        json_int(j, name, value);
}

void json_open(json *j, const char *name) {
    if (member(j, name))
        (void)fputc('{', j->out);
    j->comma = false;
}

void json_close(json *j) {
    if (j->out)
        (void)fputc('}', j->out);
    j->comma = true;
}

void json_open_list(json *j, const char *name) {
    if (member(j, name))
        (void)fputc('[', j->out);
    j->comma = false;
}

void json_close_list(json *j) {
    if (j->out)
        (void)fputc(']', j->out);
    j->comma = true;
}

char *json_take(json *j) {
    bool whole = j->out && fputc('}', j->out) != EOF && !ferror(j->out);

    whole = j->out && fclose(j->out) == 0 && whole;
    if (whole)
        return j->text;
    free(j->text);
    return NULL;
}

static int write_all(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

static int end(json *j, const char *bracket, int fd) {
    int result = -1;

    errno = ENOMEM;
    if (j->out) {
        (void)fputs(bracket, j->out);
        bool whole = !ferror(j->out);
        whole = fclose(j->out) == 0 && whole;
        if (whole)
            result = write_all(fd, j->text, j->len);
    }
    int saved = errno;
    free(j->text);
    errno = saved;
    return result;
}

int json_end(json *j, int fd) {
    return end(j, "}\n", fd);
}

int json_end_list(json *j, int fd) {
    return end(j, "]\n", fd);
}
