package interop;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Half messages and how they end. */
final class Transactions {
    /** Longer than the 60 s that pass before the first check when the server keeps the documented default. */
    private static final Duration CHECK_PATIENCE = Duration.ofSeconds(100);

    static String commit(Lab lab) throws Exception {
        Producer producer = lab.transactional(message -> TransactionResolution.UNKNOWN);
        Reader reader = lab.reader().primed(() -> send(lab, producer, "primer").commit());
        // The primers that are left would end the wait below.
        reader.nothing(Duration.ofSeconds(1));

        CompletableFuture<List<MessageView>> receive = reader.consumer.receiveAsync(1, Reader.INVISIBLE);
        Transaction transaction = send(lab, producer, "one");
        try {
            List<MessageView> early = receive.get(2, TimeUnit.SECONDS);
            check(early.isEmpty(), "visible before the commit");
        } catch (TimeoutException asItShould) {
            // Still waiting: the half message is invisible.
        }
        transaction.commit();
        List<MessageView> got = receive.get();
        MessageView one = got.isEmpty() ? reader.one(Duration.ofSeconds(20)) : got.get(0);
        check(Lab.label(one).equals("one"), "got %s", Lab.label(one));
        reader.consumer.ack(one);
        return "";
    }

    static String rollback(Lab lab) throws Exception {
        Producer producer = lab.transactional(message -> TransactionResolution.UNKNOWN);
        Reader reader = lab.reader().primed(() -> send(lab, producer, "primer").commit());
        send(lab, producer, "dropped").rollback();
        send(lab, producer, "last").commit();
        List<String> got = reader.until("last", Duration.ofSeconds(30));
        check(got.equals(List.of("last")), "got %s", got);
        return "";
    }

    static String check(Lab lab) throws Exception {
        AtomicInteger checks = new AtomicInteger();
        Producer producer = lab.transactional(message -> {
            if (!"undecided".equals(Lab.label(message))) {
                return TransactionResolution.UNKNOWN;
            }
            checks.incrementAndGet();
            return TransactionResolution.COMMIT;
        });
        Reader reader = lab.reader().primed(() -> send(lab, producer, "primer").commit());
        long sent = System.nanoTime();
        send(lab, producer, "undecided");
        lab.step("waiting for the check");
        MessageView got = reader.one(CHECK_PATIENCE);
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - sent);
        check(Lab.label(got).equals("undecided"), "got %s", Lab.label(got));
        check(checks.get() > 0, "visible without a check");
        reader.consumer.ack(got);
        return "after " + seconds + " s";
    }

    private static Transaction send(Lab lab, Producer producer, String label) throws Exception {
        Transaction transaction = producer.beginTransaction();
        producer.send(lab.message(label).build(), transaction);
        return transaction;
    }

    private static void check(boolean condition, String otherwise, Object... values) {
        Scenario.check(condition, otherwise, values);
    }
}
