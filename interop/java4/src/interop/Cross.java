package interop;

import static interop.Scenario.check;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** One end speaks Remoting, the other gRPC; `-out` is the way to gRPC, `-in` the way back. */
final class Cross {
    private static final String SHARDING_KEY = "__SHARDINGKEY";
    private static final List<String> GROUPS = List.of("red", "blue");
    private static final int PER_GROUP = 10;
    private static final long LATE_MS_MAX = 5000;
    /** Of lib/levels.py: 10 s, time enough to change the consumer. */
    private static final int WAITING_LEVEL = 13;

    static String normal(Lab lab) throws Exception {
        String out = lab.topic() + "-out";
        DefaultMQProducer producer = lab.producer();
        List<Grpc.Arrival> arrivals = Grpc.listen(lab, out, label -> producer.send(Lab.message(out, label)));
        Message message = Lab.message(out, "one");
        message.setTags("t");
        message.setKeys(List.of("k1", "k2"));
        message.putUserProperty("colour", "grün ✓");
        SendResult sent = Lab.ok(producer.send(message));
        MessageView view = Grpc.get(arrivals, "one").message();
        check(view.getTag().orElse("").equals("t"), "tag over gRPC is %s", view.getTag());
        check(Set.copyOf(view.getKeys()).equals(Set.of("k1", "k2")), "keys over gRPC are %s", view.getKeys());
        check("grün ✓".equals(view.getProperties().get("colour")), "properties over gRPC are %s", view.getProperties());
        check(view.getBody().slice().equals(ByteBuffer.wrap("one".getBytes())), "the body over gRPC changed");
        check(view.getMessageId().toString().equals(sent.getMsgId()), "id over gRPC %s, sent as %s", view.getMessageId(), sent.getMsgId());

        String in = lab.topic() + "-in";
        Inbox inbox = new Inbox();
        lab.listen(in, in, inbox);
        Producer other = Grpc.producer(lab, in);
        SendReceipt receipt = other.send(Grpc.message(in, "two").setTag("t").setKeys("k1", "k2").addProperty("colour", "grün ✓").build());
        MessageExt got = inbox.get("two", 30).message();
        check("t".equals(got.getTags()), "tag over Remoting is %s", got.getTags());
        check(Set.of(got.getKeys().split(" ")).equals(Set.of("k1", "k2")), "keys over Remoting are %s", got.getKeys());
        check("grün ✓".equals(got.getUserProperty("colour")), "properties over Remoting are %s", got.getProperties());
        check(new String(got.getBody()).equals("two"), "the body over Remoting changed");
        check(got.getMsgId().equals(receipt.getMessageId().toString()), "id over Remoting %s, sent as %s", got.getMsgId(), receipt.getMessageId());
        inbox.exactly(List.of("two"), 5);
        return "";
    }

    /** A group changes its protocol while messages wait for their next attempt: the consumer over gRPC gets each once. */
    static String moveOut(Lab lab) throws Exception {
        List<String> labels = Lab.labels("m", 8);
        String out = lab.topic();
        List<String> failed = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer first = lab.consumer(out);
        first.subscribe(out, "*");
        first.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> failed.add(Lab.label(message)));
            context.setDelayLevelWhenNextConsume(WAITING_LEVEL);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        first.start();
        DefaultMQProducer producer = lab.producer();
        for (String label : labels) {
            Lab.ok(producer.send(Lab.message(out, label)));
        }
        lab.step("failing over Remoting");
        check(Inbox.eventually(40, () -> failed.size() >= labels.size()), "only %s came over Remoting", failed);
        // The last failure is on its way to the server.
        Thread.sleep(1000);
        first.shutdown();
        lab.step("waiting for the retries over gRPC");
        List<Grpc.Arrival> arrivals = Grpc.join(lab, out);
        Inbox.eventually(60, () -> arrivals.size() >= labels.size());
        Thread.sleep(3000);
        check(Grpc.labels(arrivals).stream().sorted().toList().equals(labels), "after Remoting gRPC got %s", Grpc.labels(arrivals));
        return "";
    }

    /** The same the other way. */
    static String moveIn(Lab lab) throws Exception {
        List<String> labels = Lab.labels("m", 8);
        String in = lab.topic();
        List<String> failed = new CopyOnWriteArrayList<>();
        Producer other = Grpc.producer(lab, in);
        PushConsumer first = Grpc.fail(lab, in, failed, label -> other.send(Grpc.message(in, label).build()));
        for (String label : labels) {
            other.send(Grpc.message(in, label).build());
        }
        lab.step("failing over gRPC");
        check(Inbox.eventually(40, () -> failed.size() >= labels.size()), "only %s came over gRPC", failed);
        Thread.sleep(1000);
        first.close();
        lab.step("waiting for the retries over Remoting");
        Inbox inbox = new Inbox();
        lab.listen(in, in, inbox);
        Inbox.eventually(60, () -> inbox.size() >= labels.size());
        Thread.sleep(3000);
        check(inbox.labels().stream().sorted().toList().equals(labels), "after gRPC Remoting got %s", inbox.labels());
        return "";
    }

    /** The consumer over gRPC takes every other message: the one over Remoting gets the rest once, and none of those. */
    static String moveAcked(Lab lab) throws Exception {
        List<String> labels = Lab.labels("m", 8);
        List<String> failing = labels.stream().filter(label -> Integer.parseInt(label.substring(1)) % 2 == 0).toList();
        String in = lab.topic();
        List<String> failed = new CopyOnWriteArrayList<>();
        List<String> taken = new CopyOnWriteArrayList<>();
        Producer other = Grpc.producer(lab, in);
        PushConsumer first = Grpc.consume(lab, in, label -> (failing.contains(label) ? failed : taken).add(label), failing,
            label -> other.send(Grpc.message(in, label).build()));
        for (String label : labels) {
            other.send(Grpc.message(in, label).build());
        }
        lab.step("failing over gRPC");
        check(Inbox.eventually(40, () -> failed.size() >= failing.size() && taken.size() >= labels.size() - failing.size()),
            "only %s and %s came over gRPC", failed, taken);
        Thread.sleep(1000);
        first.close();
        lab.step("waiting for the retries over Remoting");
        Inbox inbox = new Inbox();
        lab.listen(in, in, inbox);
        Inbox.eventually(60, () -> inbox.size() >= failing.size());
        Thread.sleep(3000);
        check(inbox.labels().stream().sorted().toList().equals(failing), "after gRPC Remoting got %s", inbox.labels());
        return "";
    }

    static String fifo(Lab lab) throws Exception {
        String out = lab.topic() + "-out";
        DefaultMQProducer producer = lab.producer();
        List<Grpc.Arrival> arrivals = Grpc.listen(lab, out, label -> sharded(producer, out, label, "primers"));
        for (int i = 0; i < PER_GROUP; i++) {
            for (String group : GROUPS) {
                sharded(producer, out, group + i, group);
            }
        }
        Inbox.eventually(40, () -> arrivals.size() >= GROUPS.size() * PER_GROUP);
        for (String group : GROUPS) {
            List<Grpc.Arrival> of = arrivals.stream().filter(arrival -> arrival.label().startsWith(group)).toList();
            check(Grpc.labels(of).equals(Lab.labels(group, PER_GROUP)), "over gRPC: %s", Grpc.labels(of));
            check(of.stream().allMatch(arrival -> group.equals(arrival.message().getMessageGroup().orElse(""))),
                "message group over gRPC is %s", of.get(0).message().getMessageGroup());
        }

        String in = lab.topic() + "-in";
        Inbox inbox = orderly(lab, in);
        Producer other = Grpc.producer(lab, in);
        for (int i = 0; i < PER_GROUP; i++) {
            for (String group : GROUPS) {
                other.send(Grpc.message(in, group + i).setMessageGroup(group).build());
            }
        }
        Inbox.eventually(40, () -> inbox.size() >= GROUPS.size() * PER_GROUP);
        for (String group : GROUPS) {
            List<Inbox.Arrival> of = inbox.all().stream().filter(arrival -> arrival.label().startsWith(group)).toList();
            List<String> labels = of.stream().map(Inbox.Arrival::label).toList();
            check(labels.equals(Lab.labels(group, PER_GROUP)), "over Remoting: %s", labels);
            check(of.stream().allMatch(arrival -> group.equals(arrival.message().getProperty(SHARDING_KEY))),
                "%s over Remoting is %s", SHARDING_KEY, of.get(0).message().getProperty(SHARDING_KEY));
            check(of.stream().map(arrival -> arrival.message().getQueueId()).distinct().count() == 1, "%s is in several queues", group);
        }
        return "";
    }

    private static void sharded(DefaultMQProducer producer, String topic, String label, String group) throws Exception {
        Message message = Lab.message(topic, label);
        MessageAccessor.putProperty(message, SHARDING_KEY, group);
        Lab.ok(producer.send(message, new SelectMessageQueueByHash(), group));
    }

    private static Inbox orderly(Lab lab, String name) throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = lab.consumer(name);
        consumer.subscribe(name, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(inbox::add);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        lab.start(consumer);
        return inbox;
    }

    static String delay(Lab lab) throws Exception {
        String out = lab.topic() + "-out";
        DefaultMQProducer producer = lab.producer();
        // The topic takes delayed messages only, so the primers are delayed too.
        List<Grpc.Arrival> arrivals = Grpc.listen(lab, out, label -> {
            Message primer = Lab.message(out, label);
            primer.setDelayTimeLevel(1);
            producer.send(primer);
        });
        Message level = Lab.message(out, "level");
        level.setDelayTimeLevel(2);
        long due = System.currentTimeMillis() + 3000;
        Lab.ok(producer.send(level));
        long late = inTime(Grpc.get(arrivals, "level").at() - due);
        if (Version.hasTimers()) {
            Message timer = Lab.message(out, "timer");
            long at = System.currentTimeMillis() + 3500;
            // A whole second, so that nobody need round.
            at -= at % 1000;
            Version.deliverAt(timer, at);
            Lab.ok(producer.send(timer));
            Grpc.Arrival arrival = Grpc.get(arrivals, "timer");
            check(arrival.at() > at - 1000, "%d ms early", at - arrival.at());
            check(arrival.at() - at < LATE_MS_MAX, "%d ms late", arrival.at() - at);
        }

        String in = lab.topic() + "-in";
        Inbox inbox = new Inbox();
        lab.listen(in, in, inbox);
        long at = System.currentTimeMillis() + 3500;
        Grpc.producer(lab, in).send(Grpc.message(in, "later").setDeliveryTimestamp(at).build());
        long back = inbox.get("later", 30).at() - at;
        // Apache rounds down to a second.
        check(back > (Lab.REDSTART ? -1 : -1001), "%d ms early over Remoting", -back);
        check(back < LATE_MS_MAX, "%d ms late over Remoting", back);
        inbox.exactly(List.of("later"), 5);
        return late + " and " + back + " ms late";
    }

    private static long inTime(long late) {
        check(late >= 0, "%d ms early over gRPC", -late);
        check(late < LATE_MS_MAX, "%d ms late over gRPC", late);
        return late;
    }

    static String transaction(Lab lab) throws Exception {
        String out = lab.topic() + "-out";
        TransactionMQProducer producer = lab.transactional(new Transactions.Decisions(
            label -> label.equals("dropped") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE,
            label -> LocalTransactionState.UNKNOW));
        List<Grpc.Arrival> arrivals = Grpc.listen(lab, out,
            label -> producer.sendMessageInTransaction(Lab.message(out, label), null));
        producer.sendMessageInTransaction(Lab.message(out, "dropped"), null);
        producer.sendMessageInTransaction(Lab.message(out, "kept"), null);
        Grpc.get(arrivals, "kept");
        check(Grpc.labels(arrivals).equals(List.of("kept")), "over gRPC: %s", Grpc.labels(arrivals));

        String in = lab.topic() + "-in";
        Inbox inbox = new Inbox();
        lab.listen(in, in, inbox);
        Producer other = Grpc.producer(lab, in);
        half(other, in, "dropped").rollback();
        Transaction kept = half(other, in, "kept");
        check(!Inbox.eventually(2, () -> inbox.size() > 0), "visible over Remoting before the commit");
        kept.commit();
        inbox.get("kept", 30);
        inbox.exactly(List.of("kept"), 5);
        return "";
    }

    private static Transaction half(Producer producer, String topic, String label) throws Exception {
        Transaction transaction = producer.beginTransaction();
        producer.send(Grpc.message(topic, label).build(), transaction);
        return transaction;
    }
}
