package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** One queue is stuck on its first message while the others go on, each in its order. */
final class Orderly {
    private static final int QUEUES = 4;
    private static final int PER_QUEUE = 10;

    static String stuck(Lab lab) throws Exception {
        Inbox inbox = new Inbox();
        AtomicBoolean released = new AtomicBoolean();
        Set<Integer> attempts = new ConcurrentSkipListSet<>();
        DefaultMQPushConsumer consumer = lab.consumer(lab.group());
        consumer.subscribe(lab.topic(), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                if (Lab.label(message).equals("q0-0") && !released.get()) {
                    attempts.add(message.getReconsumeTimes());
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                inbox.add(message);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        lab.start(consumer);
        DefaultMQProducer producer = lab.producer();
        for (int i = 0; i < PER_QUEUE; i++) {
            for (int queue = 0; queue < QUEUES; queue++) {
                Lab.ok(producer.send(lab.message("q" + queue + "-" + i), (queues, message, wanted) ->
                    queues.stream().filter(one -> one.getQueueId() == (int) wanted).findFirst().orElseThrow(), queue));
            }
        }
        lab.step("waiting for the healthy queues");
        Inbox.eventually(40, () -> inbox.size() == (QUEUES - 1) * PER_QUEUE && attempts.size() >= 2);
        for (int queue = 1; queue < QUEUES; queue++) {
            check(of(inbox, queue).equals(Lab.labels("q" + queue + "-", PER_QUEUE)), "queue %d gave %s", queue, of(inbox, queue));
        }
        check(of(inbox, 0).isEmpty(), "the stuck queue gave %s", of(inbox, 0));
        check(new TreeSet<>(attempts).first() == 0 && attempts.size() >= 2, "reconsume times %s", attempts);
        released.set(true);
        lab.step("waiting for the stuck queue");
        Inbox.eventually(30, () -> of(inbox, 0).size() == PER_QUEUE);
        check(of(inbox, 0).equals(Lab.labels("q0-", PER_QUEUE)), "after its release: %s", of(inbox, 0));
        check(inbox.size() == QUEUES * PER_QUEUE, "%d deliveries", inbox.size());
        return "";
    }

    private static List<String> of(Inbox inbox, int queue) {
        List<String> labels = new ArrayList<>(inbox.labels());
        labels.removeIf(label -> !label.startsWith("q" + queue + "-"));
        return labels;
    }
}
