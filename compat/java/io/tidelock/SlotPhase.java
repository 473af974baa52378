package io.tidelock;

/**
 * The phase of a slot of a cluster, as its register said. As compat/phase/phase.h, "in a cluster". An acquire carries
 * these bytes, and the server compares them when it executes it: so no phase is acted by too late, and there is no lease.
 */
final class SlotPhase implements Phase {
    static final SlotPhase ABSENT = new SlotPhase("", NONE, 0);

    private static final long EPOCH_END = 1L << 53;

    final int phase; // NONE: there is no register
    final long epoch;

    private final String reads;

    private SlotPhase(String reads, int phase, long epoch) {
        this.reads = reads;
        this.phase = phase;
        this.epoch = epoch;
    }

    /** "PHASE EPOCH", or empty where there is none. */
    static SlotPhase read(Rules rules, String reads) {
        if ("".equals(reads))
            return ABSENT;
        boolean sense = reads != null && reads.matches("[0-3] [1-9][0-9]{0,15}");
        long epoch = sense ? Long.parseLong(reads.substring(2)) : EPOCH_END;
        if (epoch >= EPOCH_END)
            throw Lease.refused(rules, "the register of the key's slot can't be read");
        return new SlotPhase(reads, reads.charAt(0) - '0', epoch);
    }

    /**
     * An older register than another slot's may have come back with an old dump, when legacy clients run again: then the
     * lower phase of both counts. A stamp is safe in each.
     */
    SlotPhase limitedBy(SlotPhase latest) {
        return epoch < latest.epoch && latest.phase < phase ? new SlotPhase(reads, latest.phase, epoch) : this;
    }

    @Override
    public int acts() {
        return phase == NONE ? Rules.FALLBACK : phase;
    }

    @Override
    public long leftNs(Rules rules, Moment now) {
        return Long.MAX_VALUE;
    }

    @Override
    public String condition() {
        return reads;
    }
}
