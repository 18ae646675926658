package interop;

import interop.Client.Handler;
import interop.Client.Listening;
import interop.Client.Mode;
import interop.Client.Verdict;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** What the server promises, for every client the same. A scenario's topic and group are called CLIENT-SCENARIO. */
final class Scenarios {
    /** Returns a short note (or an empty one), throws when the promise is broken. */
    interface Scenario {
        String run(Client client, String name) throws Exception;
    }

    /** The server did something else than it should. */
    static final class Broken extends RuntimeException {
        Broken(String what) {
            super(what);
        }
    }

    /** The long ones first. */
    static final Map<String, Scenario> ALL = new LinkedHashMap<>();

    static {
        ALL.put("transaction", Scenarios::transaction);
        ALL.put("retry", Scenarios::retry);
        ALL.put("orderly", Scenarios::orderly);
        ALL.put("delay", Scenarios::delay);
        ALL.put("broadcast", Scenarios::broadcast);
        ALL.put("tags", Scenarios::tags);
        ALL.put("send", Scenarios::send);
    }

    private static final int PATIENCE_SECONDS = 60;
    private static final String PRIMER = "primer";
    private static final long LATE_MS_MAX = 5000;
    /** Levels 1 and 2 of lib/levels.py. */
    static final long[] LEVELS_MS = {0, 1000, 3000};

    static void check(boolean condition, String otherwise, Object... values) {
        if (!condition) {
            throw new Broken(String.format(otherwise, values));
        }
    }

    private static Listening shared(String name, Handler handler) {
        return new Listening(name, name, "*", Mode.SHARED, 0, 0, handler);
    }

    private static String send(Client client, String name) throws Exception {
        Inbox inbox = new Inbox();
        client.listen(shared(name, inbox));
        List<String> labels = new ArrayList<>();
        Map<String, String> ids = new LinkedHashMap<>();
        for (int i = 0; i < 10; i++) {
            Letter letter = Letter.of(name, "sync" + i).tagged("t").keyed("k" + i).withAllBytes();
            ids.put(letter.label(), client.send(letter));
            labels.add(letter.label());
        }
        AtomicInteger done = new AtomicInteger();
        List<Throwable> failed = new CopyOnWriteArrayList<>();
        List<String> lacks = new ArrayList<>();
        try {
            for (int i = 0; i < 10; i++) {
                client.sendAsync(Letter.of(name, "async" + i), problem -> {
                    if (problem != null) {
                        failed.add(problem);
                    }
                    done.incrementAndGet();
                    return null;
                });
                labels.add("async" + i);
            }
            check(Inbox.eventually(PATIENCE_SECONDS, () -> done.get() == 10), "%d of 10 callbacks", done.get());
            check(failed.isEmpty(), "asynchronous sends failed: %s", failed);
        } catch (Client.Skipped skipped) {
            lacks.add(skipped.getMessage());
        }
        try {
            for (int i = 0; i < 10; i++) {
                client.sendOneway(Letter.of(name, "oneway" + i));
                labels.add("oneway" + i);
            }
        } catch (Client.Skipped skipped) {
            lacks.add(skipped.getMessage());
        }
        inbox.exactly(labels, PATIENCE_SECONDS);
        for (Arrival arrival : inbox.all()) {
            check(arrival.topic().equals(name), "topic %s", arrival.topic());
            check(arrival.attempt() == 0, "%s came as attempt %d", arrival.label(), arrival.attempt());
            if (!ids.containsKey(arrival.label())) {
                continue;
            }
            Letter sent = Letter.of(name, arrival.label()).withAllBytes();
            check(Arrays.equals(arrival.body(), sent.body()), "the body of %s changed", arrival.label());
            check("t".equals(arrival.tag()), "tag %s", arrival.tag());
            check(arrival.label().equals("sync" + arrival.key().substring(1)), "%s has key %s", arrival.label(), arrival.key());
            String id = ids.get(arrival.label());
            check(id == null || id.equals(arrival.id()), "%s has id %s, sent as %s", arrival.label(), arrival.id(), id);
        }
        return String.join(", ", lacks);
    }

    private static String tags(Client client, String name) throws Exception {
        Inbox inbox = new Inbox();
        client.listen(new Listening(name, name, "a || b", Mode.SHARED, 0, 0, inbox));
        for (int i = 0; i < 5; i++) {
            for (String tag : List.of("a", "b", "c", "")) {
                client.send(Letter.of(name, tag + i).tagged(tag));
            }
        }
        // One queue: the last message proves that nothing unwanted comes after it.
        client.send(Letter.of(name, "last").tagged("a"));
        inbox.get("last", PATIENCE_SECONDS);
        List<String> wanted = new ArrayList<>();
        IntStream.range(0, 5).forEach(i -> wanted.addAll(List.of("a" + i, "b" + i)));
        wanted.add("last");
        inbox.exactly(wanted, 1);
        return "";
    }

    private static String orderly(Client client, String name) throws Exception {
        final int each = 10;
        List<String> keys = List.of("red", "blue", "green");
        Inbox inbox = new Inbox();
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        client.listen(new Listening(name, name, "*", Mode.ORDERLY, 0, 0, arrival -> {
            if (arrival.label().equals("red0") && attempts.size() < 2) {
                attempts.add(arrival.attempt());
                return false;
            }
            return inbox.take(arrival);
        }));
        for (int i = 0; i < each; i++) {
            for (String key : keys) {
                client.sendInOrder(Letter.of(name, key + i), key);
            }
        }
        Inbox.eventually(PATIENCE_SECONDS, () -> inbox.size() >= keys.size() * each);
        for (String key : keys) {
            List<String> wanted = IntStream.range(0, each).mapToObj(i -> key + i).toList();
            check(inbox.labels(key).equals(wanted), "%s came as %s, after failures %s", key, inbox.labels(key), attempts);
        }
        check(inbox.size() == keys.size() * each, "%d deliveries", inbox.size());
        check(attempts.size() == 2, "the failing message was tried %d times", attempts.size());
        return "";
    }

    private static String delay(Client client, String name) throws Exception {
        Inbox inbox = new Inbox();
        client.listen(shared(name, inbox));
        // A consumer that has only just begun takes what was due meanwhile all at once.
        client.sendLater(Letter.of(name, "first"), 1);
        inbox.get("first", PATIENCE_SECONDS);
        Map<String, Long> due = new LinkedHashMap<>();
        // The later one first: the order of sending must not matter.
        for (int level = 2; level >= 1; level--) {
            due.put("level" + level, System.currentTimeMillis() + LEVELS_MS[level]);
            client.sendLater(Letter.of(name, "level" + level), level);
        }
        long latest = 0;
        for (Map.Entry<String, Long> entry : due.entrySet()) {
            long late = inbox.get(entry.getKey(), PATIENCE_SECONDS).at() - entry.getValue();
            check(late >= 0, "%s came %d ms early", entry.getKey(), -late);
            latest = Math.max(latest, late);
        }
        pause(300);
        check(inbox.labels().equals(List.of("first", "level1", "level2")), "came as %s", inbox.labels());
        check(latest <= LATE_MS_MAX, "%d ms late", latest);
        return latest + " ms late";
    }

    /** One message fails twice and is then taken; another one fails until it is a dead letter, where the client can limit that. */
    private static String retry(Client client, String name) throws Exception {
        Inbox inbox = new Inbox();
        Map<String, List<Arrival>> failures = new ConcurrentHashMap<>();
        boolean limited = client.limitsRetries();
        client.listen(new Listening(name, name, "*", Mode.SHARED, 0, limited ? 2 : 0, arrival -> {
            List<Arrival> before = failures.computeIfAbsent(arrival.label(), label -> new CopyOnWriteArrayList<>());
            if (arrival.label().equals("dead") || arrival.label().equals("bad") && before.size() < 2) {
                before.add(arrival);
                return false;
            }
            return inbox.take(arrival);
        }));
        String bad = client.send(Letter.of(name, "bad").tagged("t").keyed("k"));
        client.send(Letter.of(name, "good"));
        String dead = limited ? client.send(Letter.of(name, "dead").tagged("t").keyed("k")) : null;
        Inbox.eventually(PATIENCE_SECONDS, () -> inbox.labels().contains("bad"));
        check(inbox.labels().contains("bad"), "the message that failed did not come again; failures %s", failures);
        Arrival taken = inbox.get("bad", 1);
        check(attempts(failures.get("bad")).equals(List.of(0, 1)) && taken.attempt() == 2, "attempts %s, then %d",
            attempts(failures.get("bad")), taken.attempt());
        check(taken.topic().equals(name) && "t".equals(taken.tag()) && "k".equals(taken.key()), "it came again as %s", taken);
        check(bad == null || bad.equals(taken.id()), "it came again with id %s, sent as %s", taken.id(), bad);
        if (limited) {
            Inbox.eventually(PATIENCE_SECONDS, () -> failures.get("dead").size() >= 3);
            // The last failure is on its way to the server; a consumer asks for the topic's route only now and then.
            Thread.sleep(1500);
            Inbox letters = new Inbox();
            client.listen(new Listening(name + "-reader", "%DLQ%" + name, "*", Mode.SHARED, 0, 0, letters));
            Arrival letter = letters.get("dead", PATIENCE_SECONDS);
            check(attempts(failures.get("dead")).equals(List.of(0, 1, 2)), "attempts %s", attempts(failures.get("dead")));
            check("t".equals(letter.tag()) && "k".equals(letter.key()), "the dead letter is %s", letter);
            check(dead == null || dead.equals(letter.id()), "the dead letter has id %s, sent as %s", letter.id(), dead);
        }
        inbox.exactly(List.of("bad", "good"), 1);
        return limited ? "" : "without dead letters";
    }

    private static List<Integer> attempts(List<Arrival> arrivals) {
        return arrivals.stream().map(Arrival::attempt).toList();
    }

    private static String transaction(Client client, String name) throws Exception {
        Inbox inbox = new Inbox();
        client.listen(shared(name, inbox));
        List<String> early = new CopyOnWriteArrayList<>();
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        for (String label : List.of("rolled-back", "asked-rolled-back", "committed", "asked")) {
            client.sendHalf(Letter.of(name, label).tagged("t").keyed("k"), sent -> {
                if (sent.equals("committed")) {
                    pause(1000);
                    early.addAll(inbox.labels(sent));
                }
                return switch (sent) {
                    case "committed" -> Verdict.COMMIT;
                    case "rolled-back" -> Verdict.ROLLBACK;
                    default -> Verdict.UNKNOWN;
                };
            }, asked -> {
                checks.merge(asked, 1, Integer::sum);
                return asked.equals("asked") ? Verdict.COMMIT : Verdict.ROLLBACK;
            });
        }
        long sent = System.nanoTime();
        Arrival committed = inbox.get("committed", PATIENCE_SECONDS);
        check(early.isEmpty(), "visible before the commit");
        check("t".equals(committed.tag()) && "k".equals(committed.key()), "it came as %s", committed);
        inbox.get("asked", 2 * PATIENCE_SECONDS);
        long seconds = (System.nanoTime() - sent) / 1_000_000_000;
        check(Inbox.eventually(PATIENCE_SECONDS, () -> checks.containsKey("asked-rolled-back")), "checks %s", checks);
        check(!checks.containsKey("committed") && !checks.containsKey("rolled-back"), "asked about what was decided: %s", checks);
        pause(1000);
        // Apache may ask a second time before it has noted the answer, and stores the message again at the second commit.
        // The order says nothing: a listener on several threads may be given both in one pull.
        List<String> got = inbox.labels().stream().distinct().sorted().toList();
        check(got.equals(List.of("asked", "committed")), "got %s", got);
        check(inbox.size() == 2, "a message came twice: %s", inbox.labels());
        return "asked after " + seconds + " s";
    }

    private static String broadcast(Client client, String name) throws Exception {
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (int member = 0; member < inboxes.size(); member++) {
            client.listen(new Listening(name, name, "*", Mode.BROADCAST, member, 0, inboxes.get(member)));
        }
        // A broadcasting consumer may begin at the newest message. There is one queue: who has got one message gets all later ones.
        check(Inbox.eventually(PATIENCE_SECONDS, () -> {
            client.prime(Letter.of(name, PRIMER));
            pause(500);
            return inboxes.stream().allMatch(inbox -> inbox.size() > 0);
        }), "no primer came");
        List<String> labels = IntStream.range(0, 20).mapToObj(i -> "m" + i).toList();
        for (String label : labels) {
            client.send(Letter.of(name, label));
        }
        for (Inbox inbox : inboxes) {
            check(Inbox.eventually(PATIENCE_SECONDS, () -> inbox.labels("m").size() >= labels.size()), "got %s", inbox.labels("m"));
            pause(300);
            check(inbox.labels("m").stream().sorted().toList().equals(labels.stream().sorted().toList()), "got %s", inbox.labels("m"));
        }
        return "";
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
