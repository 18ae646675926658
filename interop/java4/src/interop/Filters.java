package interop;

import static interop.Scenario.check;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** The topics have one queue, so the last message proves that nothing unwanted was delivered before it. */
final class Filters {
    static String tag(Lab lab) throws Exception {
        // `BB` and `Aa` have the same hash, which is all that the server may look at.
        return run(lab, MessageSelector.byTag("a || b || Aa"), List.of(
            tagged(lab, "a1", "a"), tagged(lab, "c1", "c"), lab.message("none"), tagged(lab, "A1", "A"),
            tagged(lab, "b1", "b"), tagged(lab, "twin", "BB"), tagged(lab, "Aa1", "Aa"), tagged(lab, "last", "a")),
            List.of("a1", "b1", "Aa1", "last"));
    }

    static String sql(Lab lab) throws Exception {
        String expression = "(region = 'eu' AND amount BETWEEN 10 AND 20) OR TAGS = 'vip'";
        Message vip = order(lab, "vip", "us", "1");
        vip.setTags("vip");
        return run(lab, MessageSelector.bySql(expression), List.of(
            order(lab, "in", "eu", "15"), order(lab, "far", "us", "15"), order(lab, "more", "eu", "21"),
            order(lab, "word", "eu", "many"), lab.message("bare"), vip, order(lab, "edge", "eu", "20"),
            tagged(lab, "last", "vip")),
            List.of("in", "vip", "edge", "last"));
    }

    private static Message tagged(Lab lab, String label, String tag) {
        Message message = lab.message(label);
        message.setTags(tag);
        return message;
    }

    private static Message order(Lab lab, String label, String region, String amount) {
        Message message = lab.message(label);
        message.putUserProperty("region", region);
        message.putUserProperty("amount", amount);
        return message;
    }

    private static String run(Lab lab, MessageSelector filter, List<Message> messages, List<String> wanted)
            throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = lab.consumer(lab.group());
        consumer.subscribe(lab.topic(), filter);
        // One thread keeps the order.
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.registerMessageListener(Lab.into(inbox));
        lab.start(consumer);
        DefaultMQProducer producer = lab.producer();
        for (Message message : messages) {
            Lab.ok(producer.send(message));
        }
        inbox.get("last", 40);
        check(inbox.labels().equals(wanted), "got %s instead of %s", inbox.labels(), wanted);
        return "";
    }
}
