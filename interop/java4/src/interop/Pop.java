package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers whose queues the server assigns, in pop mode. */
final class Pop {
    private static final int MESSAGES = 60;
    private static final int MESSAGES_MAX = 1500;

    static String consume(Lab lab) throws Exception {
        for (String broker : Lab.BROKERS) {
            Version.popMode(lab.admin(), broker, lab.topic(), lab.group());
        }
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (Inbox inbox : inboxes) {
            DefaultMQPushConsumer consumer = lab.consumer(lab.group());
            Version.serverRebalance(consumer);
            consumer.subscribe(lab.topic(), "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    if (Lab.label(message).equals("fails") && message.getReconsumeTimes() == 0) {
                        attempts.add(0);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    inbox.add(message);
                }
                return work();
            });
            lab.start(consumer);
        }
        DefaultMQProducer producer = lab.producer();
        Lab.ok(producer.send(lab.message("fails")));
        List<String> labels = new ArrayList<>();
        // A consumer begins to receive a second or so after its start; until both do, the messages must not run out.
        while (labels.size() < MESSAGES || labels.size() < MESSAGES_MAX && inboxes.stream().anyMatch(inbox -> inbox.size() == 0)) {
            String label = "m" + labels.size();
            Lab.ok(producer.send(lab.message(label)));
            labels.add(label);
            Thread.sleep(20);
        }
        labels.add("fails");
        lab.step("waiting for all");
        Inbox.eventually(90, () -> both(inboxes).size() >= labels.size());
        Thread.sleep(300);
        List<String> got = both(inboxes);
        check(new HashSet<>(got).equals(new HashSet<>(labels)), "%d of %d came", new HashSet<>(got).size(), labels.size());
        check(got.size() == labels.size(), "%d deliveries of %d messages", got.size(), labels.size());
        check(attempts.equals(List.of(0)), "the failing message first came %s times", attempts.size());
        MessageExt again = inboxes.stream().flatMap(inbox -> inbox.all().stream())
            .filter(arrival -> arrival.label().equals("fails")).findFirst().orElseThrow().message();
        check(again.getReconsumeTimes() == 1, "it came again with reconsume times %d", again.getReconsumeTimes());
        check(again.getTopic().equals(lab.topic()), "it came again from %s", again.getTopic());
        check(again.getProperty("POP_CK") != null, "it did not come by pop: %s", again.getProperties());
        check(inboxes.stream().allMatch(inbox -> inbox.size() > 0), "one consumer got nothing");
        return "shares " + inboxes.stream().map(Inbox::size).toList();
    }

    /** Takes a moment, so that no consumer can take everything. */
    private static ConsumeConcurrentlyStatus work() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static List<String> both(List<Inbox> inboxes) {
        return inboxes.stream().flatMap(inbox -> inbox.labels().stream()).toList();
    }
}
