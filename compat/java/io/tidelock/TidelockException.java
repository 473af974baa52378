package io.tidelock;

/** The lock was not acquired, and not because another client holds it. */
public final class TidelockException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    TidelockException(String message) {
        super(message);
    }

    TidelockException(String message, Throwable cause) {
        super(message, cause);
    }
}
