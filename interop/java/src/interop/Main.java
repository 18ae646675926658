package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Runs every scenario, or the one named on the command line. */
public final class Main {
    /** Scenarios mostly wait, so a few run side by side; each has a topic and a group of its own. */
    private static final int PARALLEL = Integer.parseInt(System.getenv().getOrDefault("INTEROP_PARALLEL", "4"));

    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("push-retry-dlq", Retries::pushRetryDlq);
        SCENARIOS.put("stale-handle", Receipts::staleHandle);
        SCENARIOS.put("change-invisible", Receipts::changeInvisible);
        SCENARIOS.put("simple-no-ack", Receipts::simpleNoAck);
        SCENARIOS.put("simple-ack", Receipts::simpleAck);
        SCENARIOS.put("fifo-order", Fifo::order);
        SCENARIOS.put("fifo-same-queue", Fifo::order);
        SCENARIOS.put("tx-check", Transactions::check);
        SCENARIOS.put("tx-rollback", Transactions::rollback);
        SCENARIOS.put("tx-commit", Transactions::commit);
        SCENARIOS.put("delay", Delays::delay);
        SCENARIOS.put("recall", Delays::recall);
        SCENARIOS.put("priority", Priorities::order);
        SCENARIOS.put("lite", Lite::push);
        SCENARIOS.put("lite-simple", Lite::simple);
        SCENARIOS.put("share-queue", Sharing::shareQueue);
        SCENARIOS.put("tag-filter", Filters::tag);
        SCENARIOS.put("sql-filter", Filters::sql);
        SCENARIOS.put("normal", Basics::exchange);
        SCENARIOS.put("tls", Basics::exchange);
        SCENARIOS.put("plaintext", Basics::exchange);
        SCENARIOS.put("body-4mib", Basics::bodyLimit);
        SCENARIOS.put("type-mismatch", Basics::typeMismatch);
        SCENARIOS.put("unknown-topic", Basics::unknownTopic);
        SCENARIOS.put("batch-send", Basics::batchSend);
        SCENARIOS.put("resume-after-restart", Restart::resume);
    }

    /** For a server that asks for credentials: the argument `auth`, or the name of one. */
    private static final Map<String, Scenario> AUTH_SCENARIOS = new LinkedHashMap<>();

    static {
        AUTH_SCENARIOS.put("auth-right-key", Auth::exchange);
        AUTH_SCENARIOS.put("auth-prefix", Auth::exchange);
        AUTH_SCENARIOS.put("auth-source", Auth::source);
        AUTH_SCENARIOS.put("auth-no-group-right", Auth::noGroupRight);
        AUTH_SCENARIOS.put("auth-no-topic-right", Auth::noTopicRight);
        AUTH_SCENARIOS.put("auth-deny", Auth::deny);
        AUTH_SCENARIOS.put("auth-disabled-user", Auth::disabledUser);
        AUTH_SCENARIOS.put("auth-wrong-key", Auth::wrongKey);
    }

    public static void main(String[] arguments) throws Exception {
        boolean good = arguments.length == 0 ? all() : arguments[0].equals("auth") ? together(AUTH_SCENARIOS) : one(arguments[0]);
        // The client leaves threads behind that would keep the process alive.
        System.exit(good ? 0 : 1);
    }

    private static boolean one(String name) {
        return new Runner(name, SCENARIOS.getOrDefault(name, AUTH_SCENARIOS.get(name))).call();
    }

    private static boolean all() throws Exception {
        // The restart would disturb the others, so it runs alone, at the end.
        Map<String, Scenario> others = new LinkedHashMap<>(SCENARIOS);
        others.remove("resume-after-restart");
        boolean good = together(others);
        return one("resume-after-restart") && good;
    }

    private static boolean together(Map<String, Scenario> scenarios) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(PARALLEL);
        List<Future<Boolean>> results = new ArrayList<>();
        for (String name : scenarios.keySet()) {
            results.add(pool.submit(new Runner(name, scenarios.get(name))));
        }
        boolean good = true;
        for (Future<Boolean> result : results) {
            good &= result.get();
        }
        return good;
    }
}
