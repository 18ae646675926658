package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The lite pull consumer, with queues it chooses and with queues it is given. */
final class Pulls {
    static String assign(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        long before = System.currentTimeMillis();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(lab.topic());
        for (int i = 0; i < 10; i++) {
            Lab.ok(producer.send(lab.message("m" + i), queues.get(0)));
        }
        DefaultLitePullConsumer consumer = lab.puller(lab.group());
        consumer.setAutoCommit(false);
        consumer.start();
        lab.keep(consumer::shutdown);
        Collection<MessageQueue> found = consumer.fetchMessageQueues(lab.topic());
        check(found.size() == 2 * Lab.BROKERS.size(), "queues %s", found);
        MessageQueue queue = found.stream().filter(queues.get(0)::equals).findFirst().orElseThrow();
        consumer.assign(found);
        // A seek is lost if the client's pull task is just beginning a round: the cancelled task takes the offset of the seek and
        // ends (4.9.8, DefaultLitePullConsumerImpl.nextPullOffset). So each seek waits until the task is in a long poll.
        List<String> first = poll(consumer, 10);
        check(first.equals(Lab.labels("m", 10)), "after the start: %s", first);
        lab.step("seeking to the beginning");
        consumer.seekToBegin(queue);
        List<String> all = poll(consumer, 10);
        check(all.equals(Lab.labels("m", 10)), "from the beginning: %s", all);
        lab.step("seeking back");
        consumer.seek(queue, 7);
        List<String> tail = poll(consumer, 3);
        check(tail.equals(List.of("m7", "m8", "m9")), "from 7 on: %s", tail);
        check(consumer.offsetForTimestamp(queue, before - 1000) == 0, "offset of the time before: %d",
            consumer.offsetForTimestamp(queue, before - 1000));
        lab.step("seeking to the end");
        consumer.seekToEnd(queue);
        Message last = lab.message("last");
        Lab.ok(producer.send(last, queues.get(0)));
        List<String> end = poll(consumer, 1);
        check(end.equals(List.of("last")), "from the end on: %s", end);
        return "";
    }

    static String subscribe(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        List<String> first = Lab.labels("m", 20);
        for (String label : first) {
            Lab.ok(producer.send(lab.message(label)));
        }
        DefaultLitePullConsumer one = subscribed(lab, lab.group());
        List<String> got = poll(one, 20);
        check(sorted(got).equals(sorted(first)), "got %s", got);
        awaitCommit(one, lab.topic(), 20);
        one.shutdown();
        lab.step("waiting for the offsets it left");
        awaitStored(lab, lab.group(), 20);
        List<String> second = Lab.labels("n", 10);
        for (String label : second) {
            Lab.ok(producer.send(lab.message(label)));
        }
        lab.step("resuming");
        DefaultLitePullConsumer other = subscribed(lab, lab.group());
        lab.keep(other::shutdown);
        List<String> rest = poll(other, 10);
        check(sorted(rest).equals(sorted(second)), "after the resume: %s", rest);
        return "";
    }

    static DefaultLitePullConsumer subscribed(Lab lab, String group) throws Exception {
        DefaultLitePullConsumer consumer = lab.puller(group);
        consumer.setAutoCommitIntervalMillis(1000);
        consumer.subscribe(lab.topic(), "*");
        consumer.start();
        return consumer;
    }

    /** Polls until the client has committed so much: it does so when it polls. */
    static void awaitCommit(DefaultLitePullConsumer consumer, String topic, int count) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (committed(consumer, topic) != count) {
            check(System.nanoTime() < deadline, "%d committed", committed(consumer, topic));
            check(consumer.poll(500).isEmpty(), "something came twice");
        }
    }

    private static long committed(DefaultLitePullConsumer consumer, String topic) throws Exception {
        long sum = 0;
        for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
            sum += Math.max(0, consumer.committed(queue));
        }
        return sum;
    }

    /** Waits until the server has the offsets: the client sends them without waiting for an answer. */
    static void awaitStored(Lab lab, String group, long count) throws Exception {
        DefaultMQAdminExt admin = lab.admin();
        check(Inbox.eventually(30, () -> stored(admin, group, lab.topic()) == count), "%d of %d are stored as consumed",
            stored(admin, group, lab.topic()), count);
    }

    private static long stored(DefaultMQAdminExt admin, String group, String topic) {
        try {
            var stats = admin.examineConsumeStats(group, topic);
            return stats.getOffsetTable().values().stream().mapToLong(queue -> queue.getConsumerOffset()).sum();
        } catch (Exception notYet) {
            return -1;
        }
    }

    /** Polls until so many came, and then a little longer, in case there are more. */
    static List<String> poll(DefaultLitePullConsumer consumer, int count) {
        List<String> labels = new ArrayList<>();
        long deadline = System.nanoTime() + 30_000_000_000L;
        BooleanSupplier more = () -> labels.size() < count && System.nanoTime() < deadline;
        while (more.getAsBoolean()) {
            consumer.poll(500).forEach(message -> labels.add(Lab.label(message)));
        }
        for (MessageExt extra : consumer.poll(500)) {
            labels.add(Lab.label(extra));
        }
        return labels;
    }

    static List<String> sorted(List<String> labels) {
        return labels.stream().sorted().toList();
    }
}
