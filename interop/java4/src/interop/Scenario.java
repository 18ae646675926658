package interop;

/** A promise of the server: returns a short note (or an empty one), throws when the promise is broken. */
interface Scenario {
    String run(Lab lab) throws Exception;

    /** The client has no such feature. */
    final class Skipped extends Exception {
        Skipped(String reason) {
            super(reason);
        }
    }

    /** The server did something else than it should. */
    final class Broken extends RuntimeException {
        Broken(String what) {
            super(what);
        }
    }

    static void check(boolean condition, String otherwise, Object... values) {
        if (!condition) {
            throw new Broken(String.format(otherwise, values));
        }
    }
}
