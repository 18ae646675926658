package interop;

import java.io.PrintStream;
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
    private static final String ALONE = "resume-after-restart";

    /** Result lines only: the clients' logging finds its way to System.out. */
    static final PrintStream RESULTS = System.out;

    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        // The long ones first.
        SCENARIOS.put("reset-offset", Offsets::reset);
        SCENARIOS.put("rebalance", Rebalance::comeAndGo);
        SCENARIOS.put("pop", Pop::consume);
        SCENARIOS.put("retry-dlq", Retries::deadLetter);
        SCENARIOS.put("trace", Traces::trace);
        SCENARIOS.put("tx-check", Transactions::check);
        SCENARIOS.put("cross-move-in", Cross::moveIn);
        SCENARIOS.put("cross-move-out", Cross::moveOut);
        SCENARIOS.put("cross-move-acked", Cross::moveAcked);
        SCENARIOS.put("cross-delay", Cross::delay);
        SCENARIOS.put("cross-fifo", Cross::fifo);
        SCENARIOS.put("cross-transaction", Cross::transaction);
        SCENARIOS.put("cross-normal", Cross::normal);
        SCENARIOS.put("recall", Delays::recall);
        SCENARIOS.put("timer", Delays::timer);
        SCENARIOS.put("delay-level", Delays::level);
        SCENARIOS.put("tls", Tls::exchange);
        SCENARIOS.put("pull-assign", Pulls::assign);
        SCENARIOS.put("pull-subscribe", Pulls::subscribe);
        SCENARIOS.put("orderly", Orderly::stuck);
        SCENARIOS.put("broadcast", Broadcast::all);
        SCENARIOS.put("request-reply", Requests::reply);
        SCENARIOS.put("tx-commit", Transactions::commit);
        SCENARIOS.put("tx-rollback", Transactions::rollback);
        SCENARIOS.put("tag-filter", Filters::tag);
        SCENARIOS.put("sql-filter", Filters::sql);
        SCENARIOS.put("send-sync", Sends::sync);
        SCENARIOS.put("send-async", Sends::async);
        SCENARIOS.put("send-oneway", Sends::oneway);
        SCENARIOS.put("send-batch", Sends::batch);
        SCENARIOS.put("vip-channel", Sends::vip);
        SCENARIOS.put("compressed", Bodies::compressed);
        SCENARIOS.put("body-4mib", Bodies::limit);
        SCENARIOS.put("query", Queries::find);
        SCENARIOS.put("unknown-topic", Sends::unknownTopic);
        SCENARIOS.put(ALONE, Restart::resume);
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
        System.setOut(System.err);
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
        others.remove(ALONE);
        boolean good = together(others);
        return one(ALONE) && good;
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
