/*
 * Pieces of JSON on a stream.
 */
#include <stdlib.h>

#include "base/jsonbits.h"

void jsonbits_quoted(FILE *out, const char *text) {
    (void)fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

void jsonbits_text(FILE *out, const char *name, const char *text) {
    (void)fprintf(out, "\"%s\":", name);
    if (text)
        jsonbits_quoted(out, text);
    else
        (void)fputs("null", out);
}

void jsonbits_thousandths(FILE *out, int64_t v) {
    unsigned long long a = (unsigned long long)llabs(v);
    (void)fprintf(out, "%s%llu.%03llu", v < 0 ? "-" : "", a / 1000, a % 1000);
}

void jsonbits_interval(FILE *out, const char *name, bool known, tl_interval i) {
    (void)fprintf(out, "\"%s\":", name);
    if (!known) {
        (void)fputs("null", out);
        return;
    }
    (void)fputs("{\"lo\":", out);
    jsonbits_thousandths(out, i.lo);
    (void)fputs(",\"hi\":", out);
    jsonbits_thousandths(out, i.hi);
    (void)fputc('}', out);
}
