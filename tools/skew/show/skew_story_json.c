/*
 * A report for machines: one JSON object on one line.
 */
#include <stdlib.h>

#include "base/js.h"
#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define CHANGES 1000
#define BUCKETS 240

#define STORY_MEMBERS(M, of)                                                                       \
    M(of, verdict, "the verdict of the latest run")                                                \
    M(of, reason, "its reason")                                                                    \
    M(of, lock_timeout_ms, "its *--lock-timeout*")                                                 \
    M(of, slack_ms, "its slack")                                                                   \
    M(of, runs, "how many runs were read")                                                         \
    M(of, from_ms, "the first of them, on the server's clock")                                     \
    M(of, to_ms, "the last of them")                                                               \
    M(of, skipped, "how many lines could not be read")                                             \
    M(of, dropped, "how many runs were dropped")                                                   \
    M(of, time_to_unsafe, "an object, see below")                                                  \
    M(of, hosts, "an array of objects, see below")                                                 \
    M(of, verdicts, "an object: for each verdict how many runs had it")                            \
    M(of, history, "the changes of the verdict: an array of objects, see below")                   \
    M(of, cause, "which hosts caused it, in words, or null")                                       \
    M(of, advice, "what to do after the latest run: a list of sentences")
MEMBERS(story, STORY_MEMBERS);

#define OUTLOOK_MEMBERS(M, of)                                                                     \
    M(of, state, "_unsafe_ or _doubt_ (now), _drifting_, _steady_ or _unknown_")                   \
    M(of, earliest_ms,                                                                             \
      "before this moment, counted from the latest run, no lock can be stolen; null: "             \
      "that is not certain")                                                                       \
    M(of, latest_ms, "from this moment on a lock can be stolen, or null")                          \
    M(of, holder, "the host that would hold then, or null")                                        \
    M(of, taker, "the host that would acquire too early, or null")                                 \
    M(of, unknown_hosts, "how many hosts have an unknown clock or drift")                          \
    M(of, detail, "the same in words")
MEMBERS(outlook, OUTLOOK_MEMBERS);

#define PAST_HOST_MEMBERS(M, of)                                                                   \
    M(of, name, "the host")                                                                        \
    M(of, instrument, "as of a single run")                                                        \
    M(of, offset_ms, "at the latest run, with lo and hi, or null")                                 \
    M(of, drift_ppm, "see above, with lo and hi, or null")                                         \
    M(of, drift_over_ms, "the length of the stretch that the drift was computed from, or null")    \
    M(of, first_ms, "its first run")                                                               \
    M(of, last_ms, "its last run")                                                                 \
    M(of, known, "in how many runs its clock was known")                                           \
    M(of, unknown, "in how many runs its clock was not known")                                     \
    M(of, over_time, "an array of objects, see below")
MEMBERS(past_host, PAST_HOST_MEMBERS);

#define OVER_TIME_MEMBERS(M, of)                                                                   \
    M(of, from_ms, "the first run")                                                                \
    M(of, to_ms, "the last run")                                                                   \
    M(of, offset_ms, "all offsets between, with lo and hi, or null")
MEMBERS(over_time, OVER_TIME_MEMBERS);

#define TURN_MEMBERS(M, of)                                                                        \
    M(of, at_ms, "when the verdict changed")                                                       \
    M(of, verdict, "to which verdict")                                                             \
    M(of, reason, "why")
MEMBERS(turn, TURN_MEMBERS);

static json_t *outlook_json(const skew_story *story) {
    const trend_outlook *outlook = &story->outlook;
    const skew_host *hosts = story->past->last.hosts;
    char message[STORY_MESSAGE];
    json_t *json = json_pack("{s:s}", state_of_outlook, trend_state_name(outlook->state));

    js_set(&json, earliest_ms_of_outlook,
           story_earliest_known(story) ? json_integer(outlook->earliest_ms) : json_null());
    js_set(&json, latest_ms_of_outlook, js_known(outlook->latest_ms));
    js_set(&json, holder_of_outlook,
           js_text(outlook->holder < 0 ? NULL : hosts[outlook->holder].name));
    js_set(&json, taker_of_outlook,
           js_text(outlook->taker < 0 ? NULL : hosts[outlook->taker].name));
    js_set(&json, unknown_hosts_of_outlook, json_integer(outlook->unknown));
    js_set(&json, detail_of_outlook, js_text(story_outlook(story, message)));
    return json;
}

static json_t *over_time_json(const skew_story *story, const past_host *host) {
    static story_bucket bucket[BUCKETS];
    json_t *list = json_array();

    story_host_buckets(story, host, bucket, BUCKETS);
    for (int i = 0; i < BUCKETS; i++) {
        const story_bucket *b = &bucket[i];
        if (b->known || b->unknown)
            js_append(&list,
                      json_pack("{s:I, s:I, s:o}", from_ms_of_over_time, (json_int_t)b->from_ms,
                                to_ms_of_over_time, (json_int_t)b->to_ms, offset_ms_of_over_time,
                                js_interval(b->known > 0, b->hull)));
    }
    return list;
}

static json_t *host_json(const skew_story *story, size_t i) {
    const past_host *host = &story->past->host[i];
    const skew_trend *trend = &story->drift[i];
    const past_point *point = &host->point[host->count - 1];
    bool lasts = trend->known && trend->to_ms > trend->from_ms;
    size_t known = 0;

    for (size_t n = 0; n < host->count; n++)
        known += past_known(&host->point[n]);
    json_t *json = json_pack("{s:o, s:s}", name_of_past_host, js_text(host->name),
                             instrument_of_past_host, host->instrument);
    js_set(&json, offset_ms_of_past_host,
           js_interval(story->last_of[i] >= 0 && past_known(point), point->offset));
    js_set(&json, drift_ppm_of_past_host, js_interval(trend->known, trend->ppb));
    js_set(&json, drift_over_ms_of_past_host,
           lasts ? json_integer(trend->to_ms - trend->from_ms) : json_null());
    js_set(&json, first_ms_of_past_host, json_integer(host->point[0].at_ms));
    js_set(&json, last_ms_of_past_host, json_integer(point->at_ms));
    js_set(&json, known_of_past_host, json_integer((json_int_t)known));
    js_set(&json, unknown_of_past_host, json_integer((json_int_t)(host->count - known)));
    js_set(&json, over_time_of_past_host, over_time_json(story, host));
    return json;
}

static json_t *verdicts_json(const skew_past *past) {
    json_int_t count[4] = {0};
    json_t *json = json_object();

    for (size_t i = 0; i < past->runs; i++)
        count[past->run[i].verdict]++;
    for (int v = SKEW_SAFE; v <= (int)SKEW_UNKNOWN; v++)
        js_set(&json, skew_verdict_name((skew_verdict)v), json_integer(count[v]));
    return json;
}

static json_t *history_json(const skew_story *story) {
    static size_t change[CHANGES];
    size_t n = story_changes(story, change, CHANGES);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const past_run *run = &story->past->run[change[i]];
        js_append(&list, json_pack("{s:I, s:s, s:o}", at_ms_of_turn, (json_int_t)run->at_ms,
                                   verdict_of_turn, skew_verdict_name(run->verdict), reason_of_turn,
                                   js_text(run->reason)));
    }
    return list;
}

/* The members before the hosts, and after them. */
static json_t *head_json(const skew_story *story) {
    const skew_past *past = story->past;
    json_t *json = json_pack("{s:s}", verdict_of_story, skew_verdict_name(past->last.verdict));

    js_set(&json, reason_of_story, js_text(past->last.reason));
    js_set(&json, lock_timeout_ms_of_story, json_integer(past->last.rule.lock_timeout_us / 1000));
    js_set(&json, slack_ms_of_story, json_integer(past->last.rule.slack_us / 1000));
    js_set(&json, runs_of_story, json_integer((json_int_t)past->runs));
    js_set(&json, from_ms_of_story, json_integer(past->run[0].at_ms));
    js_set(&json, to_ms_of_story, json_integer(past->run[past->runs - 1].at_ms));
    js_set(&json, skipped_of_story, json_integer(past->skipped));
    js_set(&json, dropped_of_story, json_integer(past->dropped));
    js_set(&json, time_to_unsafe_of_story, outlook_json(story));
    return json;
}

static json_t *tail_json(const skew_story *story) {
    const skew_result *last = &story->past->last;
    json_t *advice = json_array();

    for (int i = 0; i < last->advices; i++)
        js_append(&advice, js_text(last->advice[i]));
    return json_pack("{s:o, s:o, s:o, s:o}", verdicts_of_story, verdicts_json(story->past),
                     history_of_story, history_json(story), cause_of_story,
                     js_text(last->cause_text[0] ? last->cause_text : NULL), advice_of_story,
                     advice);
}

/* Writes host by host: all hosts over the whole time would need too much memory. */
void story_json(const skew_story *story, FILE *out) {
    const skew_past *past = story->past;
    bool comma = false;

    (void)fputc('{', out);
    js_put(head_json(story), JSON_EMBED, out);
    (void)fprintf(out, ",\"%s\":[", hosts_of_story);
    for (size_t i = 0; i < past->hosts; i++) {
        if (past->host[i].count == 0)
            continue;
        (void)fputs(comma ? "," : "", out);
        js_put(host_json(story, i), 0, out);
        comma = true;
    }
    (void)fputs("],", out);
    js_put(tail_json(story), JSON_EMBED, out);
    (void)fputs("}\n", out);
}
