package interop;

import com.alibaba.rocketmq.client.ClientConfig;
import com.alibaba.rocketmq.client.consumer.DefaultMQPushConsumer;
import com.alibaba.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import com.alibaba.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import com.alibaba.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import com.alibaba.rocketmq.client.consumer.listener.MessageListenerOrderly;
import com.alibaba.rocketmq.client.hook.ConsumeMessageContext;
import com.alibaba.rocketmq.client.hook.ConsumeMessageHook;
import com.alibaba.rocketmq.client.producer.DefaultMQProducer;
import com.alibaba.rocketmq.client.producer.LocalTransactionState;
import com.alibaba.rocketmq.client.producer.SendCallback;
import com.alibaba.rocketmq.client.producer.SendResult;
import com.alibaba.rocketmq.client.producer.SendStatus;
import com.alibaba.rocketmq.client.producer.TransactionMQProducer;
import com.alibaba.rocketmq.common.consumer.ConsumeFromWhere;
import com.alibaba.rocketmq.common.message.Message;
import com.alibaba.rocketmq.common.message.MessageExt;
import com.alibaba.rocketmq.common.protocol.heartbeat.MessageModel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** The Java clients 3.6 and 4.2: one program, as they differ only in the name of their packages (see ../run). */
final class Driver implements Client {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final String group;
    private final List<Runnable> stops = new ArrayList<>();
    private DefaultMQProducer producer;
    private TransactionMQProducer transactional;

    Driver(String scenario) {
        group = Main.NAME + "-" + scenario + "-producer";
    }

    private static <T extends ClientConfig> T connect(T client) {
        client.setNamesrvAddr(Main.NAMESRV);
        client.setInstanceName(Main.NAME + "-" + INSTANCES.incrementAndGet());
        client.setPersistConsumerOffsetInterval(1000);
        client.setHeartbeatBrokerInterval(5000);
        client.setPollNameServerInteval(5000);
        return client;
    }

    private <T extends DefaultMQProducer> T start(T client) throws Exception {
        connect(client);
        // Above the default of 3 s: builds and other programs share the machine.
        client.setSendMsgTimeout(10_000);
        client.start();
        stops.add(client::shutdown);
        return client;
    }

    private DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = start(new DefaultMQProducer(group));
        }
        return producer;
    }

    private static Message message(Letter letter) {
        return new Message(letter.topic(), letter.tag(), letter.key(), letter.body());
    }

    private static String ok(SendResult result) {
        Scenarios.check(result.getSendStatus() == SendStatus.SEND_OK, "send status %s", result.getSendStatus());
        return result.getMsgId();
    }

    @Override
    public String send(Letter letter) throws Exception {
        return ok(producer().send(message(letter)));
    }

    @Override
    public void sendAsync(Letter letter, Function<Throwable, Void> done) throws Exception {
        producer().send(message(letter), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.apply(null);
            }

            @Override
            public void onException(Throwable problem) {
                done.apply(problem);
            }
        });
    }

    @Override
    public void sendOneway(Letter letter) throws Exception {
        producer().sendOneway(message(letter));
    }

    @Override
    public void sendInOrder(Letter letter, String key) throws Exception {
        ok(producer().send(message(letter), (queues, message, by) -> queues.get(Math.floorMod(by.hashCode(), queues.size())), key));
    }

    @Override
    public void sendLater(Letter letter, int level) throws Exception {
        Message message = message(letter);
        message.setDelayTimeLevel(level);
        ok(producer().send(message));
    }

    @Override
    public void sendHalf(Letter letter, Function<String, Verdict> now, Function<String, Verdict> check) throws Exception {
        if (transactional == null) {
            transactional = new TransactionMQProducer(group);
            transactional.setTransactionCheckListener(message -> state(check.apply(Letter.label(message.getBody()))));
            start(transactional);
        }
        ok(transactional.sendMessageInTransaction(message(letter),
            (message, argument) -> state(now.apply(Letter.label(message.getBody()))), null));
    }

    private static LocalTransactionState state(Verdict verdict) {
        return switch (verdict) {
            case COMMIT -> LocalTransactionState.COMMIT_MESSAGE;
            case ROLLBACK -> LocalTransactionState.ROLLBACK_MESSAGE;
            case UNKNOWN -> LocalTransactionState.UNKNOW;
        };
    }

    @Override
    public void listen(Listening listening) throws Exception {
        DefaultMQPushConsumer consumer = connect(new DefaultMQPushConsumer(listening.group()));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.subscribe(listening.topic(), listening.tags());
        if (listening.retries() > 0) {
            consumer.setMaxReconsumeTimes(listening.retries());
        }
        if (listening.mode() == Mode.BROADCAST) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (listening.mode() == Mode.ORDERLY) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> all(messages, listening)
                ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> all(messages, listening)
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        // Without a hook 3.6 fails with a null pointer after each return of the listener: it commits and retries nothing.
        consumer.getDefaultMQPushConsumerImpl().registerConsumeMessageHook(new NoHook());
        consumer.start();
        stops.add(consumer::shutdown);
    }

    /** A batch has one message unless the consumer asks for more. */
    private static boolean all(List<MessageExt> messages, Listening listening) {
        return messages.stream().allMatch(message -> listening.handler().take(new Arrival(message.getMsgId(), message.getTopic(),
            message.getTags(), message.getKeys(), message.getBody(), message.getReconsumeTimes())));
    }

    private static final class NoHook implements ConsumeMessageHook {
        @Override
        public String hookName() {
            return "none";
        }

        @Override
        public void consumeMessageBefore(ConsumeMessageContext context) {
        }

        @Override
        public void consumeMessageAfter(ConsumeMessageContext context) {
        }
    }

    @Override
    public void close() {
        stops.forEach(Runnable::run);
    }
}
