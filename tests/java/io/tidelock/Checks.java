package io.tidelock;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.function.BooleanSupplier;

/** Runs each method of an object whose name is a promise, and says which ones are broken. */
public final class Checks {
    private Checks() {
    }

    public static void equal(Object expected, Object seen) {
        boolean same = expected == null ? seen == null : expected.equals(seen);
        if (!same)
            throw new AssertionError("expected " + expected + ", saw " + seen);
    }

    public static void check(boolean holds, String what) {
        if (!holds)
            throw new AssertionError(what);
    }

    /** The name of the register of a key's slot. */
    public static String register(Options options, String key) {
        return Reply.text(new Keys(key).register(new Rules(options)));
    }

    public static void await(String what, long limitMs, BooleanSupplier holds) throws InterruptedException {
        long end = System.nanoTime() + limitMs * 1000000;
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < end, "not within " + limitMs + " ms: " + what);
            Thread.sleep(5);
        }
    }

    /** The message of what is thrown. */
    public static String thrown(Runnable call) {
        try {
            call.run();
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        throw new AssertionError("nothing was thrown");
    }

    /** Exit status 1 if a promise is broken. TEST_ONLY names one. */
    public static void run(Object tests) throws IllegalAccessException {
        Method[] all = tests.getClass().getDeclaredMethods();
        String only = System.getenv("TEST_ONLY");
        int failed = 0;
        Arrays.sort(all, Comparator.comparing(Method::getName));
        for (Method test : all) {
            boolean counts = java.lang.reflect.Modifier.isPublic(test.getModifiers()) && test.getParameterCount() == 0
                && !java.lang.reflect.Modifier.isStatic(test.getModifiers());
            if (!counts || (only != null && !test.getName().equals(only)))
                continue;
            try {
                test.invoke(tests);
            } catch (InvocationTargetException e) {
                failed++;
                System.out.println("FAIL " + test.getName());
                e.getCause().printStackTrace(System.out);
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
