import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Live clients for the commands that show or move them. */
final class Clients {
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, AtomicInteger> COUNTS = new ConcurrentHashMap<>();
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();

    /** names NAMESRV | consume NAMESRV GROUP TOPIC | consumed GROUP | leave GROUP | produce NAMESRV GROUP TOPIC COUNT */
    static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "names" -> names(words[1], words[2]);
            case "consume" -> consume(words[1], words[2], words[3]);
            case "consumed" -> System.out.print(COUNTS.get(words[1]));
            case "leave" -> CONSUMERS.remove(words[1]).shutdown();
            case "produce" -> produce(words[1], words[2], words[3], Integer.parseInt(words[4]));
            default -> throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    /** The names of the cluster and of the broker at an address. */
    private static void names(String namesrv, String address) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
        admin.setNamesrvAddr(namesrv);
        admin.start();
        try {
            BrokerData broker = admin.examineBrokerClusterInfo().getBrokerAddrTable().values().stream()
                .filter(one -> one.getBrokerAddrs().containsValue(address)).findFirst().orElseThrow();
            System.out.print(broker.getCluster() + " " + broker.getBrokerName());
        } finally {
            admin.shutdown();
        }
    }

    private static void consume(String namesrv, String group, String topic) throws Exception {
        AtomicInteger count = COUNTS.computeIfAbsent(group, unseen -> new AtomicInteger());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("live-" + group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(group, consumer);
    }

    /** The producer stays connected. */
    private static void produce(String namesrv, String group, String topic, int count) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(group);
        if (producer == null) {
            producer = new DefaultMQProducer(group);
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName("live-" + group);
            producer.setHeartbeatBrokerInterval(1000);
            producer.setSendMsgTimeout(10_000);
            producer.start();
            PRODUCERS.put(group, producer);
        }
        for (int i = 0; i < count; i++) {
            System.out.println(producer.send(new Message(topic, ("body " + i).getBytes(StandardCharsets.UTF_8))).getSendStatus());
        }
    }
}
