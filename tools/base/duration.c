/*
 * The parser of durations. It is pure: text in, milliseconds or one line of reason out. A unit is
 * required, since users have typed "30" for seconds and for milliseconds.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static const char overflow[] = "too long: at most 292 years";

static int64_t unit_ms(const char *name) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, name) == 0)
            return units[i].ms;
    return 0;
}

/* The reason, with as much of the text as is needed to recognise it. */
static int64_t refuse(char why[DURATION_WHY], const char *reason) {
    (void)snprintf(why, DURATION_WHY, "%s", reason);
    return -1;
}

static int64_t refuse_unit(char why[DURATION_WHY], const char *text, size_t digits) {
    bool bare = text[digits] == '\0';

    if (bare && digits <= 10)
        (void)snprintf(why, DURATION_WHY, "say seconds or milliseconds: %ss or %sms", text, text);
    else if (bare)
        (void)snprintf(why, DURATION_WHY, "say seconds or milliseconds: end with s or ms");
    else if (text[digits] == '.' || text[digits] == ',')
        (void)snprintf(why, DURATION_WHY, "whole numbers only: 1500ms rather than 1.5s");
    else
        (void)snprintf(why, DURATION_WHY,
                       "the units are ms, s, m, h and d: 500ms, 30s, 5m, 2h, 1d");
    return -1;
}

int64_t duration_parse(const char *text, char why[DURATION_WHY]) {
    size_t digits = strspn(text, "0123456789");

    if (text[0] == '-')
        return refuse(why, "a duration can't be negative");
    if (digits == 0)
        return refuse(why, "not a duration: digits and a unit, as in 500ms, 30s, 5m, 2h, 1d");
    int64_t unit = unit_ms(text + digits);
    if (unit == 0)
        return refuse_unit(why, text, digits);
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value))
            return refuse(why, overflow);
    if (value > DURATION_MAX_MS / unit)
        return refuse(why, overflow);
    return value * unit;
}
