package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** A listener that always fails; the group allows two retries, a second apart. */
final class Retries {
    private static final List<Integer> ATTEMPTS = List.of(1, 2, 3);

    static String pushRetryDlq(Lab lab) throws Exception {
        Map<String, List<Integer>> attempts = new ConcurrentHashMap<>();
        Producer producer = lab.producer(lab.topic());
        lab.push((label, message) -> {
            attempts.computeIfAbsent(label, unseen -> new CopyOnWriteArrayList<>()).add(message.getDeliveryAttempt());
            return false;
        }, () -> producer.send(lab.primer().build()));

        // The first dead letter makes the topic. The reader's group begins after it, so a second one is read.
        producer.send(lab.message("first").build());
        lab.step("waiting for the dead-letter topic");
        Reader reader = deadLetters(lab);
        reader.take(1, Reader.INVISIBLE, Duration.ofSeconds(1));
        producer.send(lab.message("second").setTag("t").setKeys("k").build());
        lab.step("waiting for the dead letter");
        MessageView dead = next(reader, "second");
        check(attempts.get("first").equals(ATTEMPTS), "attempts of the first: %s", attempts.get("first"));
        check(attempts.get("second").equals(ATTEMPTS), "attempts of the second: %s", attempts.get("second"));
        check(dead.getTag().orElse("").equals("t") && dead.getKeys().contains("k"), "tag or keys are lost");
        reader.consumer.ack(dead);
        return "";
    }

    private static Reader deadLetters(Lab lab) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (true) {
            try {
                return lab.reader(lab.group() + "-reader", "%DLQ%" + lab.group(), FilterExpression.SUB_ALL);
            } catch (ClientException | RuntimeException notYet) {
                // The client reports a failed start as either.
                check(System.nanoTime() < deadline, "no dead-letter topic: %s", notYet.getMessage());
                Thread.sleep(500);
            }
        }
    }

    private static MessageView next(Reader reader, String label) throws ClientException {
        while (true) {
            MessageView message = reader.one(Duration.ofSeconds(60));
            if (label.equals(Lab.label(message))) {
                return message;
            }
            reader.consumer.ack(message);
        }
    }
}
