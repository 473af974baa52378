package io.tidelock;

/** The phase by which an acquire acts, and what the server judges of it when it executes the acquire. */
interface Phase {
    int NONE = -1;
    int DRAIN = 2;
    int TOKEN = 3;

    /** The phase to act by. */
    int acts();

    /** For how long from now the server may execute an acquire by it, ns. */
    long leftNs(Rules rules, Moment now);

    /** In a cluster: what the register of the lock's slot must hold. Null: on one server a lease limits the acquire. */
    String condition();
}
