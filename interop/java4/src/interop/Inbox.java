package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.common.message.MessageExt;

/** What a listener was given, in the order of arrival. */
final class Inbox {
    record Arrival(MessageExt message, long at) {
        String label() {
            return Lab.label(message);
        }
    }

    private final List<Arrival> arrivals = new ArrayList<>();

    synchronized void add(MessageExt message) {
        arrivals.add(new Arrival(message, System.currentTimeMillis()));
    }

    synchronized void clear() {
        arrivals.clear();
    }

    synchronized List<Arrival> all() {
        return List.copyOf(arrivals);
    }

    List<String> labels() {
        return all().stream().map(Arrival::label).toList();
    }

    int size() {
        return all().size();
    }

    boolean has(String label) {
        return labels().contains(label);
    }

    Arrival get(String label, int seconds) throws InterruptedException {
        check(eventually(seconds, () -> has(label)), "%s did not come, only %s", label, labels());
        return all().stream().filter(arrival -> label.equals(arrival.label())).findFirst().orElseThrow();
    }

    /** Waits for exactly these labels, in any order, and makes sure that none comes twice. */
    void exactly(List<String> wanted, int seconds) throws InterruptedException {
        eventually(seconds, () -> size() >= wanted.size());
        Thread.sleep(300);
        List<String> got = new ArrayList<>(labels());
        List<String> expected = new ArrayList<>(wanted);
        got.sort(null);
        expected.sort(null);
        check(got.equals(expected), "got %s instead of %s", shortened(got), shortened(expected));
    }

    private static String shortened(List<String> labels) {
        return labels.size() <= 40 ? labels.toString() : labels.size() + " messages";
    }

    static boolean eventually(int seconds, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                return false;
            }
            Thread.sleep(50);
        }
        return true;
    }
}
