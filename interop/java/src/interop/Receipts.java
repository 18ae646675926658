package interop;

import static interop.Scenario.check;

import java.time.Duration;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The simple consumer: acknowledging, not acknowledging, and the time in between. */
final class Receipts {
    private static final Duration SOON = Duration.ofSeconds(20);
    /** For what must come back: Apache looks for such messages every few seconds. */
    private static final Duration AGAIN = Duration.ofSeconds(40);

    static String simpleAck(Lab lab) throws Exception {
        Reader reader = begin(lab);
        MessageView message = reader.one(SOON);
        check(message.getDeliveryAttempt() == 1, "attempt %d", message.getDeliveryAttempt());
        reader.consumer.ack(message);
        lab.step("making sure that it stays away");
        reader.nothing(Reader.INVISIBLE.plusSeconds(5));
        return "";
    }

    static String simpleNoAck(Lab lab) throws Exception {
        Reader reader = begin(lab);
        long sent = System.currentTimeMillis();
        MessageView first = reader.one(SOON);
        lab.step("waiting for it to come again");
        long late = again(reader, first, sent + Reader.INVISIBLE.toMillis());
        return late + " ms after its time";
    }

    static String changeInvisible(Lab lab) throws Exception {
        Reader reader = begin(lab);
        lab.step("waiting for it to come earlier");
        MessageView shortened = reader.one(Duration.ofSeconds(60), SOON);
        long now = System.currentTimeMillis();
        reader.consumer.changeInvisibleDuration(shortened, Duration.ofSeconds(3));
        MessageView second = take(reader, shortened, now + 3000, 25_000);

        lab.step("waiting for it to come later");
        now = System.currentTimeMillis();
        reader.consumer.changeInvisibleDuration(second, Duration.ofSeconds(15));
        MessageView third = take(reader, second, now + 15_000, 25_000);
        reader.consumer.changeInvisibleDuration(third, Duration.ofSeconds(20));
        // The client keeps the new handle.
        reader.consumer.ack(third);
        return "";
    }

    static String staleHandle(Lab lab) throws Exception {
        Reader reader = begin(lab);
        MessageView first = reader.one(SOON);
        lab.step("waiting for it to come again");
        MessageView second = reader.one(Duration.ofSeconds(30), AGAIN);
        check(second.getDeliveryAttempt() == 2, "attempt %d", second.getDeliveryAttempt());
        try {
            reader.consumer.ack(first);
        } catch (Exception refused) {
            reader.consumer.ack(second);
            return refused.getClass().getSimpleName();
        }
        throw new Scenario.Broken("the handle of the first delivery was accepted");
    }

    private static Reader begin(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(lab.primer().build()));
        producer.send(lab.message("one").build());
        return reader;
    }

    /** Waits for the next delivery of a message, not before the given time; returns how much later it came. */
    private static long again(Reader reader, MessageView before, long notBefore) throws Exception {
        MessageView next = take(reader, before, notBefore, AGAIN.toMillis());
        long late = System.currentTimeMillis() - notBefore;
        reader.consumer.ack(next);
        return late;
    }

    private static MessageView take(Reader reader, MessageView before, long notBefore, long lateMsMax)
            throws Exception {
        MessageView next = reader.one(Duration.ofSeconds(60), AGAIN);
        long late = System.currentTimeMillis() - notBefore;
        check(late >= 0, "came %d ms too early", -late);
        check(late < lateMsMax, "came %d ms too late", late);
        check(next.getMessageId().toString().equals(before.getMessageId().toString()), "another message came");
        check(next.getDeliveryAttempt() == before.getDeliveryAttempt() + 1, "attempt %d after %d",
            next.getDeliveryAttempt(), before.getDeliveryAttempt());
        return next;
    }
}
