package interop;

import java.util.function.Function;

/** One client, in the words that all of them know. Each folder beside `src` has a `Driver` that implements it. */
interface Client extends AutoCloseable {
    /** Returns the message's id, or null if the client does not tell it. */
    String send(Letter letter) throws Exception;

    default void prime(Letter letter) {
        try {
            send(letter);
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** Returns at once; `done` gets null, or what went wrong. */
    default void sendAsync(Letter letter, Function<Throwable, Void> done) throws Exception {
        throw new Skipped("no asynchronous send");
    }

    default void sendOneway(Letter letter) throws Exception {
        throw new Skipped("no one-way send");
    }

    /** Messages with the same key keep their order. */
    default void sendInOrder(Letter letter, String key) throws Exception {
        throw new Skipped("no ordered messages");
    }

    /** Sends with a delay level of lib/levels.py, or with that time where the client has times. */
    default void sendLater(Letter letter, int level) throws Exception {
        throw new Skipped("no delayed messages");
    }

    /** Sends a half message; `now` decides while the local transaction runs, `check` when the server asks. Both get the label. */
    default void sendHalf(Letter letter, Function<String, Verdict> now, Function<String, Verdict> check) throws Exception {
        throw new Skipped("no transactions");
    }

    /** Starts a consumer. A message that is sent from then on reaches it. */
    void listen(Listening listening) throws Exception;

    /** Whether a consumer can say how often a message is tried before it becomes a dead letter. */
    default boolean limitsRetries() {
        return true;
    }

    @Override
    void close() throws Exception;

    enum Mode {
        SHARED, ORDERLY, BROADCAST
    }

    enum Verdict {
        COMMIT, ROLLBACK, UNKNOWN
    }

    /** False: the message is to come again. */
    interface Handler {
        boolean take(Arrival arrival);
    }

    /** `member` counts the consumers of one group. `retries` of 0: as the client has it. */
    record Listening(String group, String topic, String tags, Mode mode, int member, int retries, Handler handler) {
    }

    /** The client has no such feature. */
    final class Skipped extends Exception {
        Skipped(String what) {
            super(what + " (client lacks the feature)");
        }
    }
}
