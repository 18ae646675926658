package interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What the two clients do differently: the client 4.9. */
final class Version {
    static final List<String> COMPRESSIONS = List.of("ZLIB");

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void compress(DefaultMQProducer producer, String kind) {
        // The client knows no other.
    }

    static boolean hasTimers() {
        return false;
    }

    static long deliverAt(Message message, long at) throws Scenario.Skipped {
        throw lacks("delay levels only");
    }

    static long deliverInMs(Message message, long ms) throws Scenario.Skipped {
        throw lacks("delay levels only");
    }

    static long deliverInSeconds(Message message, long seconds) throws Scenario.Skipped {
        throw lacks("delay levels only");
    }

    static String recall(DefaultMQProducer producer, String topic, SendResult sent) throws Scenario.Skipped {
        throw lacks("no recall");
    }

    static void popMode(DefaultMQAdminExt admin, String broker, String topic, String group) throws Scenario.Skipped {
        throw lacks("no pop mode");
    }

    static void serverRebalance(DefaultMQPushConsumer consumer) throws Scenario.Skipped {
        throw lacks("no pop mode");
    }

    private static Scenario.Skipped lacks(String what) {
        return new Scenario.Skipped(what + " (client lacks the feature)");
    }
}
