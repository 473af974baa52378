package io.tidelock;

/** A stand-in for DistributeLockUtil that follows the phases of a migration. */
public final class TidelockLockUtil implements AutoCloseable {
    public TidelockLockUtil(Eval redis, Options options) {
    }

    public boolean lock(String key) {
        throw new UnsupportedOperationException("not yet");
    }

    public boolean tryLock(String key, long waitMs) throws InterruptedException {
        throw new UnsupportedOperationException("not yet");
    }

    public boolean release(String key) {
        throw new UnsupportedOperationException("not yet");
    }

    public long remainingMs(String key) {
        return 0;
    }

    public long fence(String key) {
        return 0;
    }

    public int phase() {
        return -1;
    }

    /** Why the last release of this thread was false. */
    public String lastLoss() {
        return null;
    }

    @Override
    public void close() {
    }
}
