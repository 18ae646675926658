package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.List;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/** Messages for later. */
final class Delays {
    private static final long LATE_MS_MAX = 5000;

    static String delay(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(at(lab, "primer", 0)));
        // The later one first: the order of sending must not matter.
        producer.send(at(lab, "second", 4321));
        producer.send(at(lab, "first", 2345));
        long latest = 0;
        for (String expected : List.of("first", "second")) {
            MessageView got = reader.one(Duration.ofSeconds(15));
            long late = System.currentTimeMillis() - got.getDeliveryTimestamp().orElseThrow();
            check(Lab.label(got).equals(expected), "%s came instead of %s", Lab.label(got), expected);
            check(late >= 0, "%d ms early", -late);
            check(late <= LATE_MS_MAX, "%d ms late", late);
            latest = Math.max(latest, late);
            reader.consumer.ack(got);
        }
        return latest + " ms late";
    }

    static String recall(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(at(lab, "primer", 0)));
        SendReceipt recalled = producer.send(at(lab, "recalled", 5000));
        SendReceipt kept = producer.send(at(lab, "kept", 5000));
        producer.send(at(lab, "last", 8000));
        String id = producer.recallMessage(lab.topic(), recalled.getRecallHandle()).getMessageId().toString();
        check(id.equals(recalled.getMessageId().toString()), "recalled another message");
        List<String> got = reader.until("last", Duration.ofSeconds(30));
        check(got.equals(List.of("kept", "last")), "got %s", got);
        try {
            producer.recallMessage(lab.topic(), kept.getRecallHandle());
        } catch (Exception tooLate) {
            return "";
        }
        throw new Scenario.Broken("recalled a delivered message");
    }

    private static Message at(Lab lab, String label, long inMs) {
        return lab.message(label).setDeliveryTimestamp(System.currentTimeMillis() + inMs).build();
    }
}
