package interop;

import java.util.function.Function;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.Message;

/** The application: one listener for each consumer of the scenarios. */
@SpringBootApplication(scanBasePackages = "none")
public class Listeners {
    abstract static class Listener implements RocketMQListener<MessageExt> {
        private final int member;

        Listener(int member) {
            this.member = member;
        }

        @Override
        public void onMessage(MessageExt message) {
            String group = getClass().getAnnotation(RocketMQMessageListener.class).consumerGroup();
            if (!Switchboard.take(group, member, new Arrival(message.getMsgId(), message.getTopic(), message.getTags(),
                    message.getKeys(), message.getBody(), message.getReconsumeTimes()))) {
                throw new IllegalStateException("to be tried again");
            }
        }
    }

    @RocketMQMessageListener(topic = "spring-send", consumerGroup = "spring-send")
    static class Send extends Listener {
        Send() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-tags", consumerGroup = "spring-tags", selectorExpression = "a || b")
    static class Tags extends Listener {
        Tags() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-orderly", consumerGroup = "spring-orderly", consumeMode = ConsumeMode.ORDERLY)
    static class Orderly extends Listener {
        Orderly() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-delay", consumerGroup = "spring-delay")
    static class Delay extends Listener {
        Delay() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-retry", consumerGroup = "spring-retry", maxReconsumeTimes = 2)
    static class Retry extends Listener {
        Retry() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "%DLQ%spring-retry", consumerGroup = "spring-retry-reader")
    static class DeadLetters extends Listener {
        DeadLetters() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-transaction", consumerGroup = "spring-transaction")
    static class Transaction extends Listener {
        Transaction() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-broadcast", consumerGroup = "spring-broadcast",
        messageModel = MessageModel.BROADCASTING, instanceName = "first")
    static class FirstBroadcast extends Listener {
        FirstBroadcast() {
            super(0);
        }
    }

    @RocketMQMessageListener(topic = "spring-broadcast", consumerGroup = "spring-broadcast",
        messageModel = MessageModel.BROADCASTING, instanceName = "second")
    static class SecondBroadcast extends Listener {
        SecondBroadcast() {
            super(1);
        }
    }

    /** Decides by label. Its annotation makes it a bean. */
    @RocketMQTransactionListener
    static class Decisions implements RocketMQLocalTransactionListener {
        static volatile Function<String, Client.Verdict> now;
        static volatile Function<String, Client.Verdict> check;

        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(now.apply(Letter.label((byte[]) message.getPayload())));
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return state(check.apply(Letter.label((byte[]) message.getPayload())));
        }

        private static RocketMQLocalTransactionState state(Client.Verdict verdict) {
            return switch (verdict) {
                case COMMIT -> RocketMQLocalTransactionState.COMMIT;
                case ROLLBACK -> RocketMQLocalTransactionState.ROLLBACK;
                case UNKNOWN -> RocketMQLocalTransactionState.UNKNOWN;
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

    @Bean DeadLetters deadLetters() {
        return new DeadLetters();
    }

    @Bean Transaction transaction() {
        return new Transaction();
    }

    @Bean FirstBroadcast firstBroadcast() {
        return new FirstBroadcast();
    }

    @Bean SecondBroadcast secondBroadcast() {
        return new SecondBroadcast();
    }
}
