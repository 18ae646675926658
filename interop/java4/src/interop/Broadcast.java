package interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Two consumers of a broadcasting group: each gets everything. */
final class Broadcast {
    static String all(Lab lab) throws Exception {
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (Inbox inbox : inboxes) {
            DefaultMQPushConsumer consumer = lab.consumer(lab.group());
            Version.broadcast(consumer);
            consumer.subscribe(lab.topic(), "*");
            consumer.registerMessageListener(Lab.into(inbox));
            lab.start(consumer);
        }
        DefaultMQProducer producer = lab.producer();
        List<String> labels = Lab.labels("m", 20);
        for (String label : labels) {
            Lab.ok(producer.send(lab.message(label)));
        }
        for (Inbox inbox : inboxes) {
            inbox.exactly(labels, 30);
        }
        return "";
    }
}
