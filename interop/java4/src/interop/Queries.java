package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Finding stored messages. */
final class Queries {
    static String find(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        List<SendResult> sent = new ArrayList<>();
        for (String label : List.of("one", "two", "three")) {
            Message message = lab.message(label);
            message.setKeys(List.of("both", "only-" + label));
            sent.add(Lab.ok(producer.send(message)));
        }
        SendResult two = sent.get(1);
        DefaultMQAdminExt admin = lab.admin();
        lab.step("asking by key");
        check(Inbox.eventually(30, () -> byKey(admin, lab.topic(), "both").size() == 3), "by the shared key: %s",
            byKey(admin, lab.topic(), "both"));
        check(byKey(admin, lab.topic(), "only-two").equals(Set.of("two")), "by key: %s", byKey(admin, lab.topic(), "only-two"));
        check(byKey(admin, lab.topic(), "nobody").isEmpty(), "by an unknown key: %s", byKey(admin, lab.topic(), "nobody"));
        lab.step("asking by offset id");
        check("two".equals(Lab.label(admin.viewMessage(lab.topic(), two.getOffsetMsgId()))), "another message by its offset id");
        lab.step("asking by unique key");
        check("two".equals(Lab.label(admin.viewMessage(lab.topic(), two.getMsgId()))), "another message by its unique key");

        lab.step("asking by offset");
        MessageQueue queue = two.getMessageQueue();
        check(admin.minOffset(queue) == 0 && admin.maxOffset(queue) == 3, "offsets %d to %d", admin.minOffset(queue), admin.maxOffset(queue));
        DefaultMQPullConsumer consumer = lab.connect(new DefaultMQPullConsumer(lab.group()));
        consumer.start();
        lab.keep(consumer::shutdown);
        PullResult pulled = consumer.pull(queue, "*", 1, 1);
        check(pulled.getMsgFoundList() != null && pulled.getMsgFoundList().size() == 1, "pulled %s", pulled);
        MessageExt got = pulled.getMsgFoundList().get(0);
        check("two".equals(Lab.label(got)) && got.getQueueOffset() == 1, "offset 1 is %s", got);
        long stored = got.getStoreTimestamp();
        check(admin.searchOffset(queue, stored - 60_000) == 0, "a minute before is offset %d", admin.searchOffset(queue, stored - 60_000));
        check(admin.searchOffset(queue, stored + 60_000) >= 2, "a minute later is offset %d", admin.searchOffset(queue, stored + 60_000));
        return "";
    }

    static Set<String> byKey(DefaultMQAdminExt admin, String topic, String key) {
        Set<String> labels = new TreeSet<>();
        for (MessageExt message : messages(admin, topic, key)) {
            labels.add(Lab.label(message));
        }
        return labels;
    }

    /** The client throws when there is none. */
    static List<MessageExt> messages(DefaultMQAdminExt admin, String topic, String key) {
        long now = System.currentTimeMillis();
        try {
            return admin.queryMessage(topic, key, 32, now - 600_000, now + 600_000).getMessageList();
        } catch (Exception none) {
            return List.of();
        }
    }
}
