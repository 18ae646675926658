package interop;

import static interop.Scenarios.check;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** What a listener was given, in the order of arrival. */
final class Inbox implements Client.Handler {
    private final List<Arrival> arrivals = new ArrayList<>();

    @Override
    public synchronized boolean take(Arrival arrival) {
        arrivals.add(arrival);
        return true;
    }

    synchronized List<Arrival> all() {
        return List.copyOf(arrivals);
    }

    List<String> labels() {
        return all().stream().map(Arrival::label).toList();
    }

    List<String> labels(String stem) {
        return labels().stream().filter(label -> label.startsWith(stem)).toList();
    }

    int size() {
        return all().size();
    }

    Arrival get(String label, int seconds) throws InterruptedException {
        check(eventually(seconds, () -> labels().contains(label)), "%s did not come, only %s", label, labels());
        return all().stream().filter(arrival -> label.equals(arrival.label())).findFirst().orElseThrow();
    }

    /** Waits for exactly these labels, in any order, and makes sure that none comes twice. */
    void exactly(List<String> wanted, int seconds) throws InterruptedException {
        eventually(seconds, () -> size() >= wanted.size());
        Thread.sleep(300);
        check(labels().stream().sorted().toList().equals(wanted.stream().sorted().toList()), "got %s instead of %s",
            labels(), wanted);
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
