package interop;

import static interop.Scenario.check;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Clients with the message trace switched on write where a message went. */
final class Traces {
    private static final String TOPIC = "RMQ_SYS_TRACE_TOPIC";

    static String trace(Lab lab) throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = lab.prepare(new DefaultMQPushConsumer(lab.group(), true, null));
        consumer.subscribe(lab.topic(), "*");
        consumer.registerMessageListener(Lab.into(inbox));
        lab.start(consumer);
        DefaultMQProducer producer = lab.start(new DefaultMQProducer(lab.group() + "-producer", true, null));
        String id = Lab.ok(producer.send(lab.message("one"))).getMsgId();
        inbox.get("one", 30);
        DefaultMQAdminExt admin = lab.admin();
        lab.step("waiting for the trace");
        Set<String> wanted = Set.of("Pub", "SubBefore", "SubAfter");
        check(Inbox.eventually(60, () -> kinds(admin, id).containsAll(wanted)), "traced: %s", kinds(admin, id));
        return "";
    }

    private static Set<String> kinds(DefaultMQAdminExt admin, String id) {
        Set<String> kinds = new TreeSet<>();
        for (MessageExt message : Queries.messages(admin, TOPIC, id)) {
            for (String record : new String(message.getBody(), StandardCharsets.UTF_8).split("\u0002")) {
                if (record.contains(id)) {
                    kinds.add(record.split("\u0001")[0]);
                }
            }
        }
        return kinds;
    }
}
