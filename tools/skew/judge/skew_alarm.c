/*
 * The texts of alarms, and which host has the worst one.
 */
#include <stdio.h>
#include <string.h>

#include "skew/judge/skew_alarm.h"

static const struct {
    const char *name, *says;
} alarms[] = {
    [SKEW_NO_ALARM] = {"ok", ""},
    [SKEW_FREERUNNING] = {"freerunning", "reports that its own clock is not synchronized"},
    [SKEW_UNRELIABLE] = {"unreliable", "calls its own clock unreliable"},
    [SKEW_SOON] = {"soon", "announces a disruption within about a day"},
    [SKEW_IMMINENT] = {"imminent", "announces a disruption within about an hour"},
};

const char *skew_alarm_name(skew_alarm alarm) {
    return alarms[alarm].name;
}

const char *skew_alarm_says(skew_alarm alarm) {
    return alarms[alarm].says;
}

void skew_alarm_put(skew_host *host, skew_alarm alarm) {
    char detail[SKEW_DETAIL_SIZE];

    if (!host->known || host->missing || host->unsteady || alarm <= host->alarm)
        return;
    host->alarm = alarm;
    host->status = skew_alarm_name(alarm);
    memcpy(detail, host->detail, sizeof detail);
    (void)snprintf(host->detail, sizeof host->detail, "the hypervisor %s; %s",
                   skew_alarm_says(alarm), detail);
}

const skew_host *skew_alarm_worst(const skew_result *result) {
    const skew_host *worst = NULL;
    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        if (host->kind == SKEW_CLOCK && host->alarm > (worst ? worst->alarm : SKEW_NO_ALARM))
            worst = host;
    }
    return worst;
}
