/*
 * Lets contenders take turns in short slices, so that whatever else the machine does meets all of
 * them alike.
 */
#include "bench.h"

#include <time.h>

int64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

void meter_start(meter *m) {
    m->from_server = bench_server_cpu_ns();
    m->from_client = bench_client_cpu_ns();
    m->from_ns = now_ns();
    m->running = true;
}

void meter_stop(meter *m) {
    if (!m->running)
        return;
    m->ns += now_ns() - m->from_ns;
    m->client_ns += bench_client_cpu_ns() - m->from_client;
    m->server_ns += bench_server_cpu_ns() - m->from_server;
    m->running = false;
}

static void slice(const contender *c, int64_t slice_ns, meter *m) {
    meter_start(m);
    m->operations += c->run(c->ctx, m->from_ns + slice_ns, m);
    meter_stop(m);
}

static void write_down(figures *f, int round, const meter *m, const hist *h) {
    double n = m->operations ? (double)m->operations : 1;
    f->rate[round] = (double)m->operations / ((double)m->ns / SECOND);
    f->client_us[round] = (double)m->client_ns / n / 1000;
    f->server_us[round] = (double)m->server_ns / n / 1000;
    f->core_rate[round] = n * SECOND / (double)(m->client_ns + m->server_ns + 1);
    f->p50_us[round] = h ? hist_us(h, 0.50) : 0;
    f->p99_us[round] = h ? hist_us(h, 0.99) : 0;
}

void take_turns(const contender *c, int n, int64_t slice_ns, int slices, figures *ret) {
    meter warm = {0};
    for (int i = 0; i < n; i++)
        slice(&c[i], slice_ns, &warm);
    for (int round = 0; round < rounds; round++) {
        meter m[CONTENDERS_MAX] = {0};
        for (int i = 0; i < n; i++)
            if (c[i].hist)
                hist_clear(c[i].hist);
        for (int s = 0; s < slices; s++)
            for (int i = s; i < s + n; i++) /* each is the first as often as others */
                slice(&c[i % n], slice_ns, &m[i % n]);
        for (int i = 0; i < n; i++)
            write_down(&ret[i], round, &m[i], c[i].hist);
    }
}
