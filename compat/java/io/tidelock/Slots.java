package io.tidelock;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * What is known of the slots of a cluster: the phase of each, and the clock of its master. Both may be old. The reply to an
 * acquire says what has become of a phase. M covers the clock of a node that has taken over the slot.
 */
final class Slots {
    private static final int READS_MOST = 3;

    private static final class Known {
        SlotPhase phase;
        ServerClock clock;
    }

    private final Server server;
    private final Rules rules;
    private final Map<Integer, Known> all = new HashMap<>();
    private SlotPhase latest = SlotPhase.ABSENT;

    Slots(Server server, Rules rules) {
        this.server = server;
        this.rules = rules;
    }

    /** Of all slots that with the latest epoch. */
    synchronized int phase() {
        return latest.phase;
    }

    private synchronized Known known(Keys keys) {
        return all.computeIfAbsent(keys.slot, slot -> new Known());
    }

    synchronized ServerClock clock(Keys keys) {
        return known(keys).clock;
    }

    synchronized void learn(Keys keys, ServerClock read) {
        Known known = known(keys);
        known.clock = known.clock == null ? read : known.clock.newer(read);
    }

    synchronized SlotPhase learn(Keys keys, String reads) {
        SlotPhase read = SlotPhase.read(rules, reads);
        known(keys).phase = read;
        latest = read.epoch > latest.epoch ? read : latest;
        return read.limitedBy(latest);
    }

    /** Reads the slot's register if it must. */
    SlotPhase usable(Keys keys) {
        if (!keys.areInOneSlot())
            throw new IllegalArgumentException("the key has a '}' and no {tag}, so the lock's other keys can't be in its slot "
                + "of the cluster; add a {tag}");
        for (int i = 0; i < READS_MOST && usableNow(keys) == null; i++)
            read(keys);
        SlotPhase phase = usableNow(keys);
        if (phase == null)
            throw new TidelockException("namespace " + rules.namespace + ": the reply with the slot's phase came too late");
        return phase;
    }

    private synchronized SlotPhase usableNow(Keys keys) {
        Known known = known(keys);
        boolean fresh = known.phase != null && !known.clock.isOutdated(Moment.now(), rules.attemptMs * Rates.NS_PER_MS);
        return fresh ? known.phase.limitedBy(latest) : null;
    }

    private void read(Keys keys) {
        Moment asked = Moment.now();
        Object reply = server.send(new Request(Script.SLOT, Collections.singletonList(keys.register(rules))));
        learn(keys, new ServerClock(Reply.timeUs(reply, 1), asked, Moment.now()));
        learn(keys, Reply.text(Reply.item(reply, 0)));
    }
}
