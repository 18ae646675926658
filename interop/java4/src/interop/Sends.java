package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The ways to send, and what arrives. */
final class Sends {
    private static final int COUNT = 20;

    static String sync(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        Message message = lab.message("one");
        message.setTags("red");
        message.setKeys(List.of("k1", "k2"));
        message.putUserProperty("colour", "grün ✓");
        message.setBody(everyByte());
        message.setFlag(7);
        SendResult sent = Lab.ok(producer.send(message));
        MessageExt got = inbox.get("one", 30).message();
        check(got.getMsgId().equals(sent.getMsgId()), "message id %s instead of %s", got.getMsgId(), sent.getMsgId());
        check(((MessageClientExt) got).getOffsetMsgId().equals(sent.getOffsetMsgId()), "another offset id");
        check(got.getBrokerName() == null || got.getBrokerName().equals(sent.getMessageQueue().getBrokerName()), "broker %s", got.getBrokerName());
        check(got.getQueueId() == sent.getMessageQueue().getQueueId(), "queue %d", got.getQueueId());
        check(got.getQueueOffset() == sent.getQueueOffset(), "queue offset %d", got.getQueueOffset());
        check(got.getTopic().equals(lab.topic()) && got.getTags().equals("red"), "topic %s, tag %s", got.getTopic(), got.getTags());
        check(got.getKeys().equals("k1 k2"), "keys are %s", got.getKeys());
        check("grün ✓".equals(got.getUserProperty("colour")), "properties are %s", got.getProperties());
        check(Arrays.equals(got.getBody(), everyByte()), "the body changed");
        check(got.getFlag() == 7 && got.getReconsumeTimes() == 0, "flag %d, reconsumed %d", got.getFlag(), got.getReconsumeTimes());
        check(Math.abs(got.getStoreTimestamp() - System.currentTimeMillis()) < 60_000, "stored at another time");
        check(Lab.BROKERS.stream().anyMatch(got.getStoreHost().toString()::endsWith), "store host %s", got.getStoreHost());

        List<String> labels = Lab.labels("m", COUNT);
        Set<MessageQueue> queues = new HashSet<>();
        for (String label : labels) {
            queues.add(Lab.ok(producer.send(lab.message(label))).getMessageQueue());
        }
        check(queues.size() == 4 * Lab.BROKERS.size(), "only queues %s were written", queues);
        inbox.exactly(with("one", labels), 30);
        return "";
    }

    static String async(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        ConcurrentLinkedQueue<SendResult> results = new ConcurrentLinkedQueue<>();
        Map<String, String> failures = new ConcurrentHashMap<>();
        List<String> labels = Lab.labels("m", COUNT);
        for (String label : labels) {
            producer.send(lab.message(label), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results.add(Lab.ok(result));
                }

                @Override
                public void onException(Throwable problem) {
                    failures.put(label, problem.toString());
                }
            });
        }
        Inbox.eventually(30, () -> results.size() + failures.size() == COUNT);
        check(failures.isEmpty(), "failed: %s", failures);
        check(results.size() == COUNT, "%d of %d callbacks", results.size(), COUNT);
        inbox.exactly(labels, 30);
        return "";
    }

    static String oneway(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        List<String> labels = Lab.labels("m", COUNT);
        for (String label : labels) {
            producer.sendOneway(lab.message(label));
        }
        inbox.exactly(labels, 30);
        return "";
    }

    static String batch(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        List<String> labels = Lab.labels("m", COUNT);
        List<Message> messages = new ArrayList<>();
        for (String label : labels) {
            Message message = lab.message(label);
            message.setTags("t-" + label);
            message.setKeys("k-" + label);
            messages.add(message);
        }
        SendResult sent = Lab.ok(producer.send(messages));
        inbox.exactly(labels, 30);
        List<String> ids = List.of(sent.getMsgId().split(","));
        check(new HashSet<>(ids).size() == COUNT, "%d message ids", ids.size());
        check(sent.getOffsetMsgId().split(",").length == COUNT, "offset ids are %s", sent.getOffsetMsgId());
        for (Inbox.Arrival arrival : inbox.all()) {
            MessageExt got = arrival.message();
            int index = labels.indexOf(arrival.label());
            check(got.getMsgId().equals(ids.get(index)), "%s has another id", arrival.label());
            check(got.getQueueOffset() == sent.getQueueOffset() + index, "%s is at %d", arrival.label(), got.getQueueOffset());
            check(("t-" + arrival.label()).equals(got.getTags()) && ("k-" + arrival.label()).equals(got.getKeys()),
                "%s has tag %s and keys %s", arrival.label(), got.getTags(), got.getKeys());
        }
        return "";
    }

    /** The second port, two below the broker's. */
    static String vip(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = new DefaultMQProducer(lab.group() + "-producer");
        producer.setVipChannelEnabled(true);
        Lab.ok(lab.start(producer).send(lab.message("one")));
        inbox.exactly(List.of("one"), 30);
        return "";
    }

    static String unknownTopic(Lab lab) throws Exception {
        String topic = Lab.NAME + "-no-such-topic";
        try {
            lab.producer().send(Lab.message(topic, "lost"));
        } catch (Exception refusal) {
            check(refusal.getMessage().contains(topic), "the error does not name the topic: %s", refusal.getMessage());
            return refusal.getMessage().lines().findFirst().orElse("");
        }
        throw new Scenario.Broken("accepted");
    }

    private static List<String> with(String one, List<String> more) {
        List<String> all = new ArrayList<>(more);
        all.add(one);
        return all;
    }

    private static byte[] everyByte() {
        byte[] body = new byte[256];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) i;
        }
        return body;
    }
}
