package interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What the two clients do differently: the client 5. */
final class Version {
    static final List<String> COMPRESSIONS = List.of("ZLIB", "LZ4", "ZSTD");
    /** With 0 a consumer keeps the queues it is assigned; here it shares those of one more. */
    private static final int POP_SHARED_QUEUES = 1;

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void compress(DefaultMQProducer producer, String kind) {
        producer.setCompressType(CompressionType.valueOf(kind));
    }

    static boolean hasTimers() {
        return true;
    }

    static long deliverAt(Message message, long at) throws Scenario.Skipped {
        message.setDeliverTimeMs(at);
        return at;
    }

    static long deliverInMs(Message message, long ms) throws Scenario.Skipped {
        message.setDelayTimeMs(ms);
        return System.currentTimeMillis() + ms;
    }

    static long deliverInSeconds(Message message, long seconds) throws Scenario.Skipped {
        message.setDelayTimeSec(seconds);
        return System.currentTimeMillis() + seconds * 1000;
    }

    static String recall(DefaultMQProducer producer, String topic, SendResult sent) throws Exception {
        return producer.recallMessage(topic, sent.getRecallHandle());
    }

    static void popMode(DefaultMQAdminExt admin, String broker, String topic, String group) throws Exception {
        admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, POP_SHARED_QUEUES, 10_000);
    }

    static void serverRebalance(DefaultMQPushConsumer consumer) throws Scenario.Skipped {
        consumer.setClientRebalance(false);
        consumer.setPopBatchNums(2);
    }
}
