package interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** A simple consumer that leaves out the primers. */
final class Reader {
    /** The shortest the server accepts. */
    static final Duration INVISIBLE = Duration.ofSeconds(10);

    final SimpleConsumer consumer;

    Reader(SimpleConsumer consumer) {
        this.consumer = consumer;
    }

    /** Makes sure of a first receive, which is where a new group begins: sends primers until one arrives. */
    Reader primed(Lab.Sending primer) throws Exception {
        CompletableFuture<List<MessageView>> receive = consumer.receiveAsync(1, INVISIBLE);
        while (true) {
            primer.send();
            try {
                List<MessageView> messages = receive.get(500, TimeUnit.MILLISECONDS);
                for (MessageView message : messages) {
                    consumer.ack(message);
                }
                if (!messages.isEmpty()) {
                    return this;
                }
                receive = consumer.receiveAsync(1, INVISIBLE);
            } catch (TimeoutException notYet) {
                // The next primer may be the one.
            }
        }
    }

    /** What arrives first within the time, at most `max` messages; empty if nothing does. */
    List<MessageView> take(int max, Duration invisible, Duration within) throws ClientException {
        long deadline = System.nanoTime() + within.toNanos();
        List<MessageView> taken = new ArrayList<>();
        do {
            for (MessageView message : consumer.receive(max, invisible)) {
                if (Lab.isPrimer(message)) {
                    consumer.ack(message);
                } else {
                    taken.add(message);
                }
            }
        } while (taken.isEmpty() && System.nanoTime() < deadline);
        return taken;
    }

    MessageView one(Duration within) throws ClientException {
        return one(INVISIBLE, within);
    }

    MessageView one(Duration invisible, Duration within) throws ClientException {
        List<MessageView> taken = take(1, invisible, within);
        Scenario.check(taken.size() == 1, "nothing came within %d s", within.toSeconds());
        return taken.get(0);
    }

    void nothing(Duration within) throws ClientException {
        List<MessageView> taken = take(32, INVISIBLE, within);
        Scenario.check(taken.isEmpty(), "unexpected: %s", labels(taken));
    }

    /** Acknowledges everything up to and including the message with this label; returns the labels. */
    List<String> until(String last, Duration within) throws ClientException {
        long deadline = System.nanoTime() + within.toNanos();
        List<String> labels = new ArrayList<>();
        while (!labels.contains(last)) {
            Scenario.check(System.nanoTime() < deadline, "%s did not come, only %s", last, labels);
            for (MessageView message : take(32, INVISIBLE, Duration.ofSeconds(1))) {
                labels.add(Lab.label(message));
                consumer.ack(message);
            }
        }
        return labels;
    }

    static List<String> labels(List<MessageView> messages) {
        return messages.stream().map(Lab::label).toList();
    }
}
