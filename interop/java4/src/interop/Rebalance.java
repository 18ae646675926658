package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers join and leave while messages flow. */
final class Rebalance {
    private static final int QUEUES = 8 * Lab.BROKERS.size();
    /** A queue that moves may repeat what its old owner had in hand; six moves of at most all queues. */
    private static final double REPEATS_MAX = 0.2;

    static String comeAndGo(Lab lab) throws Exception {
        Inbox inbox = new Inbox();
        AtomicBoolean stop = new AtomicBoolean();
        List<String> sent = new ArrayList<>();
        DefaultMQProducer producer = lab.producer();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        members.add(lab.listen(lab.group(), lab.topic(), inbox));
        Thread sender = new Thread(() -> flow(lab, producer, sent, stop), lab.topic() + "-sender");
        sender.setDaemon(true);
        sender.start();
        settled(lab, members, inbox);
        members.add(lab.listen(lab.group(), lab.topic(), inbox));
        settled(lab, members, inbox);
        members.add(lab.listen(lab.group(), lab.topic(), inbox));
        settled(lab, members, inbox);
        members.remove(0).shutdown();
        settled(lab, members, inbox);
        members.add(lab.listen(lab.group(), lab.topic(), inbox));
        members.remove(0).shutdown();
        settled(lab, members, inbox);
        members.remove(0).shutdown();
        settled(lab, members, inbox);
        stop.set(true);
        sender.join(20_000);

        lab.step("waiting for the last messages");
        Set<String> all = new HashSet<>(sent);
        Inbox.eventually(30, () -> new HashSet<>(inbox.labels()).containsAll(all));
        List<String> got = inbox.labels();
        Set<String> distinct = new HashSet<>(got);
        check(distinct.containsAll(all), "%d of %d messages are lost", all.size() - distinct.size(), all.size());
        int repeats = got.size() - distinct.size();
        check(repeats <= all.size() * REPEATS_MAX, "%d repeats of %d messages", repeats, all.size());
        return all.size() + " messages, " + repeats + " repeats";
    }

    private static void flow(Lab lab, DefaultMQProducer producer, List<String> sent, AtomicBoolean stop) {
        try {
            for (int i = 0; !stop.get(); i++) {
                Lab.ok(producer.send(lab.message("m" + i)));
                sent.add("m" + i);
                Thread.sleep(5);
            }
        } catch (Exception problem) {
            problem.printStackTrace();
        }
    }

    /** Every queue has exactly one owner, the shares differ by one at most, and every queue is consumed. */
    private static void settled(Lab lab, List<DefaultMQPushConsumer> members, Inbox inbox) throws Exception {
        lab.step("waiting for " + members.size() + " members to share");
        check(Inbox.eventually(60, () -> shared(members)), "owned: %s", owners(members));
        Set<String> consumed = new HashSet<>();
        int from = inbox.size();
        check(Inbox.eventually(60, () -> {
            List<Inbox.Arrival> all = inbox.all();
            all.subList(from, all.size()).forEach(arrival -> consumed.add(arrival.message().getStoreHost() + " " + arrival.message().getQueueId()));
            return consumed.size() == QUEUES;
        }), "only queues %s were consumed by %d members", consumed, members.size());
    }

    private static boolean shared(List<DefaultMQPushConsumer> members) {
        Map<MessageQueue, Integer> owners = owners(members);
        if (owners.size() != QUEUES || owners.values().stream().anyMatch(count -> count != 1)) {
            return false;
        }
        return members.stream().allMatch(member -> owned(member).size() >= QUEUES / members.size());
    }

    private static Map<MessageQueue, Integer> owners(List<DefaultMQPushConsumer> members) {
        Map<MessageQueue, Integer> owners = new HashMap<>();
        members.forEach(member -> owned(member).forEach(queue -> owners.merge(queue, 1, Integer::sum)));
        return owners;
    }

    private static Set<MessageQueue> owned(DefaultMQPushConsumer member) {
        Set<MessageQueue> queues = new HashSet<>();
        for (MessageQueue queue : member.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (!queue.getTopic().startsWith("%RETRY%")) {
                queues.add(queue);
            }
        }
        return queues;
    }
}
