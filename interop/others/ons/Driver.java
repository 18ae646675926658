package interop;

import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Admin;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.OnExceptionContext;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.PropertyValueConst;
import com.aliyun.openservices.ons.api.SendCallback;
import com.aliyun.openservices.ons.api.SendResult;
import com.aliyun.openservices.ons.api.order.OrderAction;
import com.aliyun.openservices.ons.api.order.OrderConsumer;
import com.aliyun.openservices.ons.api.order.OrderProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** Aliyun's client 1.8, whose API hides a 4.x client. */
final class Driver implements Client {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final String group;
    private final List<Admin> started = new ArrayList<>();
    private Producer producer;
    private OrderProducer ordered;
    private TransactionProducer transactional;

    Driver(String scenario) {
        group = Main.NAME + "-" + scenario + "-producer";
    }

    private static Properties properties(String group) {
        Properties properties = new Properties();
        properties.put(PropertyKeyConst.GROUP_ID, group);
        properties.put(PropertyKeyConst.NAMESRV_ADDR, Main.NAMESRV);
        // The client signs every request; a server without access control does not look at the signature.
        properties.put(PropertyKeyConst.AccessKey, "interop");
        properties.put(PropertyKeyConst.SecretKey, "interop");
        properties.put(PropertyKeyConst.SendMsgTimeoutMillis, "10000");
        properties.put(PropertyKeyConst.MsgTraceSwitch, "false");
        properties.put(PropertyKeyConst.InstanceName, Main.NAME + "-" + INSTANCES.incrementAndGet());
        return properties;
    }

    private <T extends Admin> T start(T client) {
        client.start();
        started.add(client);
        return client;
    }

    private Producer producer() {
        if (producer == null) {
            producer = start(ONSFactory.createProducer(properties(group)));
        }
        return producer;
    }

    private static Message message(Letter letter) {
        return new Message(letter.topic(), letter.tag(), letter.key(), letter.body());
    }

    @Override
    public String send(Letter letter) {
        return producer().send(message(letter)).getMessageId();
    }

    @Override
    public void sendAsync(Letter letter, Function<Throwable, Void> done) {
        producer().sendAsync(message(letter), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.apply(null);
            }

            @Override
            public void onException(OnExceptionContext context) {
                done.apply(context.getException());
            }
        });
    }

    @Override
    public void sendOneway(Letter letter) {
        producer().sendOneway(message(letter));
    }

    @Override
    public void sendInOrder(Letter letter, String key) {
        if (ordered == null) {
            ordered = start(ONSFactory.createOrderProducer(properties(group)));
        }
        ordered.send(message(letter), key);
    }

    @Override
    public void sendLater(Letter letter, int level) throws Skipped {
        // setStartDeliverTime stores a property that Apache does not read either; that of the levels is kept from the caller.
        throw new Skipped("no delays but those of Aliyun's own servers");
    }

    @Override
    public void sendHalf(Letter letter, Function<String, Verdict> now, Function<String, Verdict> check) {
        if (transactional == null) {
            transactional = ONSFactory.createTransactionProducer(properties(group),
                message -> status(check.apply(Letter.label(message.getBody()))));
            start(transactional);
        }
        boolean[] rolledBack = {false};
        try {
            transactional.send(message(letter), (message, argument) -> {
                Verdict verdict = now.apply(Letter.label(message.getBody()));
                rolledBack[0] = verdict == Verdict.ROLLBACK;
                return status(verdict);
            }, null);
        } catch (RuntimeException problem) {
            // The client's way of telling the caller what the caller decided.
            if (!rolledBack[0]) {
                throw problem;
            }
        }
    }

    private static TransactionStatus status(Verdict verdict) {
        return switch (verdict) {
            case COMMIT -> TransactionStatus.CommitTransaction;
            case ROLLBACK -> TransactionStatus.RollbackTransaction;
            case UNKNOWN -> TransactionStatus.Unknow;
        };
    }

    @Override
    public void listen(Listening listening) {
        Properties properties = properties(listening.group());
        properties.put(PropertyKeyConst.ConsumeThreadNums, "4");
        if (listening.retries() > 0) {
            properties.put(PropertyKeyConst.MaxReconsumeTimes, String.valueOf(listening.retries()));
        }
        if (listening.mode() == Mode.BROADCAST) {
            properties.put(PropertyKeyConst.MessageModel, PropertyValueConst.BROADCASTING);
        }
        if (listening.mode() == Mode.ORDERLY) {
            properties.put(PropertyKeyConst.SuspendTimeMillis, "1000");
            OrderConsumer consumer = ONSFactory.createOrderedConsumer(properties);
            consumer.subscribe(listening.topic(), listening.tags(),
                (message, context) -> take(message, listening) ? OrderAction.Success : OrderAction.Suspend);
            start(consumer);
        } else {
            Consumer consumer = ONSFactory.createConsumer(properties);
            consumer.subscribe(listening.topic(), listening.tags(),
                (message, context) -> take(message, listening) ? Action.CommitMessage : Action.ReconsumeLater);
            start(consumer);
        }
    }

    private static boolean take(Message message, Listening listening) {
        return listening.handler().take(new Arrival(message.getMsgID(), message.getTopic(), message.getTag(), message.getKey(),
            message.getBody(), message.getReconsumeTimes()));
    }

    @Override
    public void close() {
        started.forEach(Admin::shutdown);
    }
}
