package interop;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.Function;
import org.apache.rocketmq.client.annotation.RocketMQMessageListener;
import org.apache.rocketmq.client.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.client.core.RocketMQListener;
import org.apache.rocketmq.client.core.RocketMQTransactionChecker;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** The application: one listener for each consumer of the scenarios. */
@SpringBootApplication(scanBasePackages = "none")
public class Listeners {
    static byte[] body(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    abstract static class Listener implements RocketMQListener {
        @Override
        public ConsumeResult consume(MessageView message) {
            String group = getClass().getAnnotation(RocketMQMessageListener.class).consumerGroup();
            List<String> keys = List.copyOf(message.getKeys());
            Arrival arrival = new Arrival(message.getMessageId().toString(), message.getTopic(), message.getTag().orElse(null),
                keys.isEmpty() ? null : keys.get(0), body(message), message.getDeliveryAttempt() - 1);
            return Driver.primed(group, arrival) || Switchboard.take(group, 0, arrival) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
        }
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-send", consumerGroup = "spring5-send", tag = "*")
    static class Send extends Listener {
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-tags", consumerGroup = "spring5-tags", tag = "a || b")
    static class Tags extends Listener {
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-orderly", consumerGroup = "spring5-orderly", tag = "*")
    static class Orderly extends Listener {
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-delay", consumerGroup = "spring5-delay", tag = "*")
    static class Delay extends Listener {
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-retry", consumerGroup = "spring5-retry", tag = "*")
    static class Retry extends Listener {
    }

    @RocketMQMessageListener(endpoints = "${endpoint}", topic = "spring5-transaction", consumerGroup = "spring5-transaction", tag = "*")
    static class Transaction extends Listener {
    }

    /** Decides by label. Its annotation makes it a bean. */
    @RocketMQTransactionListener
    static class Decisions implements RocketMQTransactionChecker {
        static volatile Function<String, Client.Verdict> check;

        @Override
        public TransactionResolution check(MessageView message) {
            return switch (check.apply(Letter.label(body(message)))) {
                case COMMIT -> TransactionResolution.COMMIT;
                case ROLLBACK -> TransactionResolution.ROLLBACK;
                case UNKNOWN -> TransactionResolution.UNKNOWN;
            };
        }
    }

    @Bean Send send() {
        return new Send();
    }

    @Bean Tags tags() {
        return new Tags();
    }

    @Bean Orderly orderly() {
        return new Orderly();
    }

    @Bean Delay delay() {
        return new Delay();
    }

    @Bean Retry retry() {
        return new Retry();
    }

    @Bean Transaction transaction() {
        return new Transaction();
    }
}
