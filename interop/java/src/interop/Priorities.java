package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Messages of a higher priority overtake a backlog of lower ones. */
final class Priorities {
    private static final int[] SENT = {1, 3, 2, 1, 3, 2, 1, 3};
    private static final List<String> EXPECTED = List.of("3-1", "3-4", "3-7", "2-2", "2-5", "1-0", "1-3", "1-6");

    static String order(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(lab.primer().setPriority(3).build()));
        for (int i = 0; i < SENT.length; i++) {
            producer.send(lab.message(SENT[i] + "-" + i).setPriority(SENT[i]).build());
        }
        lab.step("receiving");
        List<String> labels = new ArrayList<>();
        while (labels.size() < SENT.length) {
            MessageView message = reader.one(Duration.ofSeconds(20));
            String label = Lab.label(message);
            check(message.getPriority().orElse(-1).toString().equals(label.substring(0, 1)),
                "%s came with priority %s", label, message.getPriority());
            labels.add(label);
            reader.consumer.ack(message);
        }
        check(labels.equals(EXPECTED), "expected %s, got %s", EXPECTED, labels);
        return "";
    }
}
