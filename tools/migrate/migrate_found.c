/*
 * A scan may return a key twice, and a survey scans again and again: a key is counted once, by its hash. Two
 * keys with one hash are as likely as not among 2^32 of them; the counts are for people.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_found.h"

bool found_begin(found *ret) {
    *ret = (found){.family = calloc(FOUND_FAMILIES, sizeof *ret->family),
                   .seen = calloc(FOUND_KEYS_MOST, sizeof *ret->seen)};
    if (ret->family && ret->seen)
        return true;
    found_end(ret);
    return false;
}

void found_end(found *all) {
    free(all->family);
    free(all->seen);
    *all = (found){.family = NULL};
}

void found_sample(found_samples *samples, int64_t least_ms, int64_t most_ms) {
    if (samples->count == 0 || least_ms < samples->least_ms)
        samples->least_ms = least_ms;
    if (samples->count == 0 || most_ms > samples->most_ms)
        samples->most_ms = most_ms;
    if (samples->count == 0 || most_ms < samples->least_upper_ms)
        samples->least_upper_ms = most_ms;
    samples->count++;
}

void found_look(found_family *family, int64_t least_ms, int64_t most_ms) {
    if (most_ms > 0 || !GUARD(over_is_no_lifetime))
        found_sample(&family->looks, least_ms, most_ms);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

/* Is the key new? One that can't be remembered is not counted. */
static bool is_new(found *all, tl_bytes key) {
    uint64_t hash = tl__bytes_hash(0, key) | 1;
    size_t at = (size_t)(hash >> 1) % FOUND_KEYS_MOST;

    while (all->seen[at] && all->seen[at] != hash)
        at = (at + 1) % FOUND_KEYS_MOST;
    if (all->seen[at])
        return false;
    if (all->keys >= FOUND_KEYS_MOST / 4 * 3) {
        all->full = true;
        return false;
    }
    all->seen[at] = hash;
    all->keys++;
    return true;
}

/* The key's family and its text, or NULL. */
static found_family *known_family(found *all, char text[NAMES_FAMILY], uint64_t *id, tl_bytes key) {
    *id = tl__bytes_hash(0, tl__bytes_of(names_family(text, key)));
    for (int i = 0; i < all->families; i++)
        if (all->family[i].id == *id)
            return &all->family[i];
    return NULL;
}

/* The key's family, new if needed; NULL: there are too many. */
static found_family *family_of(found *all, tl_bytes key) {
    char text[NAMES_FAMILY];
    uint64_t id;
    found_family *family = known_family(all, text, &id, key);

    if (family)
        return family;
    if (all->families == FOUND_FAMILIES) {
        all->dropped++;
        return NULL;
    }
    family = &all->family[all->families++];
    *family = (found_family){.id = id, .left_most_ms = -1, .locks = {.whole = true}};
    memcpy(family->family, text, sizeof text);
    return family;
}

static void count_form(found_family *family, const char *dialects, const char *example,
                       int64_t count) {
    for (int i = 0; i < family->forms; i++)
        if (strcmp(family->form[i].dialects, dialects) == 0) {
            family->form[i].count += count;
            return;
        }
    if (family->forms == FOUND_FORMS) {
        family->more_forms = true;
        return;
    }
    found_form *form = &family->form[family->forms++];
    form->count = count;
    (void)snprintf(form->dialects, sizeof form->dialects, "%s", dialects);
    (void)snprintf(form->example, sizeof form->example, "%s", example);
}

/* ---- learning ------------------------------------------------------------------------------------ */

static void count_stamp(found_family *family, tl_bytes key, const tl_lock_info *info,
                        const char *dialects) {
    char shown[KEY_SHOWN];

    tl__bytes_print(shown, sizeof shown, key);
    family->stamps++;
    count_form(family, dialects[0] ? dialects : info->dialect, shown, 1);
    if (info->stamp_left_ms == INT64_MIN)
        return;
    family->over += info->stamp_left_ms <= 0;
    family->old += info->stamp_left_ms < -FOUND_OLD_MS;
    if (info->stamp_left_ms > family->left_most_ms)
        family->left_most_ms = info->stamp_left_ms;
}

found_family *found_learn(found *all, const migrate_view *view, tl_bytes key,
                          const tl_lock_info *info, const char *dialects) {
    bool stamp = info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP;
    bool token = info->protocol == TL_TOKEN;

    if ((!stamp && !token && !info->oddity[0]) || !is_new(all, key))
        return NULL;
    found_family *family = family_of(all, key);
    if (!family)
        return NULL;
    names_learn(&family->names, key);
    migrate_locks_learn(&family->locks, view, key.p, key.n, info);
    if (token)
        family->tokens++;
    else if (!stamp && family->odd++ == 0)
        (void)snprintf(family->oddity, sizeof family->oddity, "%s", info->oddity);
    else if (stamp && info->by_tidelock)
        family->ours++;
    else if (stamp)
        count_stamp(family, key, info, dialects);
    return family;
}

found_family *found_again(found *all, tl_bytes key, const tl_lock_info *info) {
    char text[NAMES_FAMILY];
    uint64_t id;
    found_family *family = known_family(all, text, &id, key);

    if (info->by_tidelock || info->protocol == TL_TOKEN || info->stamp_left_ms < -FOUND_OLD_MS ||
        !family || !found_is_old(family))
        return NULL;
    family->old--;
    family->over -= info->stamp_left_ms > 0;
    family->left_most_ms = info->stamp_left_ms;
    return family;
}

found_family *found_heard(found *all, tl_bytes key, const char *dialects) {
    found_family *family = family_of(all, key);
    char shown[KEY_SHOWN];

    if (!family)
        return NULL;
    if (is_new(all, key))
        names_learn(&family->names, key);
    family->takes++;
    tl__bytes_print(shown, sizeof shown, key);
    if (family->stamps == 0)
        count_form(family, dialects, shown, 1);
    return family;
}

void found_held(found *all, tl_bytes key, int64_t least_ms, int64_t most_ms) {
    found_family *family = family_of(all, key);

    if (family)
        found_sample(&family->holds, least_ms, most_ms);
}

bool found_is_legacy(const found_family *family) {
    return family->stamps + family->takes > 0;
}

bool found_is_old(const found_family *family) {
    return family->takes == 0 && family->ours == 0 && family->stamps > 0 &&
           family->old == family->stamps;
}

const found_form *found_main_form(const found_family *family) {
    const found_form *most = NULL;

    for (int i = 0; i < family->forms; i++)
        if (!most || family->form[i].count > most->count)
            most = &family->form[i];
    return most;
}

/* ---- joining ------------------------------------------------------------------------------------- */

static bool are_alike(const found_family *one, const found_family *other) {
    const found_form *a = found_main_form(one), *b = found_main_form(other);

    return found_is_legacy(one) == found_is_legacy(other) &&
           found_is_old(one) == found_is_old(other) && one->forms <= 1 && other->forms <= 1 &&
           (!a || !b || strcmp(a->dialects, b->dialects) == 0);
}

void found_join_samples(found_samples *into, const found_samples *other) {
    int64_t count = into->count + other->count;

    if (other->count == 0)
        return;
    found_sample(into, other->least_ms, other->most_ms);
    if (other->least_upper_ms < into->least_upper_ms || into->count == 1)
        into->least_upper_ms = other->least_upper_ms;
    into->count = count;
}

found_samples found_lifetimes(const found_family *family) {
    found_samples all = family->lifetimes;

    if (all.count == 0 ||
        (GUARD(shorter_lifetime_counts) && family->looks.least_upper_ms < all.least_ms))
        found_join_samples(&all, &family->looks);
    return all;
}

static void join_bunch(migrate_bunch *into, const migrate_bunch *other) {
    for (int64_t i = 0; i < other->count && i < MIGRATE_EXAMPLES; i++)
        if (into->count + i < MIGRATE_EXAMPLES)
            into->example[into->count + i] = other->example[i];
    into->count += other->count;
    into->over += other->over;
}

void found_join_locks(migrate_locks *into, const migrate_locks *other) {
    into->whole = into->whole && other->whole;
    join_bunch(&into->own, &other->own);
    join_bunch(&into->strays, &other->strays);
    join_bunch(&into->strangers, &other->strangers);
    join_bunch(&into->tokens, &other->tokens);
}

static void join(found_family *into, const found_family *other) {
    names_merge(&into->names, &other->names);
    into->stamps += other->stamps;
    into->over += other->over;
    into->old += other->old;
    into->ours += other->ours;
    into->tokens += other->tokens;
    into->takes += other->takes;
    if (into->odd == 0)
        memcpy(into->oddity, other->oddity, sizeof into->oddity);
    into->odd += other->odd;
    if (other->left_most_ms > into->left_most_ms)
        into->left_most_ms = other->left_most_ms;
    for (int i = 0; i < other->forms; i++)
        count_form(into, other->form[i].dialects, other->form[i].example, other->form[i].count);
    into->more_forms = into->more_forms || other->more_forms;
    found_join_samples(&into->lifetimes, &other->lifetimes);
    found_join_samples(&into->looks, &other->looks);
    found_join_samples(&into->holds, &other->holds);
    found_join_samples(&into->stays, &other->stays);
    found_join_locks(&into->locks, &other->locks);
}

static bool has_parent(const found_family *family, const char *parent) {
    char buf[NAMES_FAMILY];

    return strcmp(names_parent(buf, family->family), parent) == 0;
}

/* May all families of this parent be one? Their common pattern must say something, too. */
static bool fit_together(const found *all, const char *parent) {
    const found_family *first = NULL;
    char pattern[NAMES_PATTERN];
    names names = {.count = 0};

    for (int i = 0; i < all->families; i++) {
        if (!has_parent(&all->family[i], parent))
            continue;
        if (first && !are_alike(first, &all->family[i]))
            return false;
        first = first ? first : &all->family[i];
        names_merge(&names, &all->family[i].names);
    }
    return *names_pattern(pattern, &names) != '\0';
}

void found_join(found *all) {
    for (int i = 0; i < all->families; i++) {
        found_family *into = &all->family[i];
        char parent[NAMES_FAMILY];
        int kept = i + 1;

        if (!fit_together(all, names_parent(parent, into->family)))
            continue;
        for (int k = i + 1; k < all->families; k++) {
            if (has_parent(&all->family[k], parent))
                join(into, &all->family[k]);
            else if (kept++ != k)
                all->family[kept - 1] = all->family[k];
        }
        all->families = kept;
    }
}
