package io.tidelock;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** The holds of one TidelockLockUtil, by key. One that has expired stays until its release, or until room is made. */
final class Holds {
    private static final int ROOM_LEAST = 64;

    private final Map<String, Hold> all = new HashMap<>();
    private int room = ROOM_LEAST;

    synchronized long leftNs(String key, Moment now) {
        Hold hold = all.get(key);
        return hold == null ? 0 : Math.max(0, hold.leftNs(now));
    }

    /** This thread's; null: there is none, or it is over. */
    synchronized Hold mine(String key, Moment now) {
        Hold hold = all.get(key);
        return hold == null || hold.thread != Thread.currentThread() || hold.leftNs(now) <= 0 ? null : hold;
    }

    /** False: another thread holds it. */
    synchronized boolean add(String key, Hold hold, Moment now) {
        if (leftNs(key, now) > 0)
            return false;
        if (all.size() >= room)
            forgetExpired(now);
        all.put(key, hold);
        return true;
    }

    private void forgetExpired(Moment now) {
        for (Iterator<Hold> i = all.values().iterator(); i.hasNext();)
            if (i.next().leftNs(now) <= 0)
                i.remove();
        room = Math.max(ROOM_LEAST, 2 * all.size());
    }

    /** Take out this thread's hold; null: there is none. */
    synchronized Hold remove(String key) {
        Hold hold = all.get(key);
        if (hold == null || hold.thread != Thread.currentThread())
            return null;
        all.remove(key);
        return hold;
    }
}
