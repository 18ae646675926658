package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario works with: its names, its clients (stopped at the end) and its labelled messages. */
final class Lab {
    static final String NAME = System.getenv().getOrDefault("INTEROP_NAME", "java5r");
    static final boolean REDSTART = "redstart".equals(System.getenv("INTEROP_SERVER"));
    /** The addresses of all brokers. */
    static final List<String> BROKERS = List.of(System.getenv("INTEROP_BROKERS").split(","));
    private static final String NAMESRV = System.getenv("INTEROP_NAMESRV");
    private static final String LABEL = "interop";
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final String name;
    private final List<AutoCloseable> clients = Collections.synchronizedList(new ArrayList<>());
    private volatile String step = "starting";
    private RPCHook hook;

    Lab(String scenario) {
        name = NAME + "-" + scenario;
    }

    String topic() {
        return name;
    }

    String group() {
        return name;
    }

    /** Says what comes next, for the line that reports a failure. */
    void step(String next) {
        step = next;
    }

    String step() {
        return step;
    }

    /** The user of the clients made from now on, with the secret that lib/auth.py gave it. */
    void actAs(String user) {
        actAs(user, "secret-of-" + user);
    }

    void actAs(String user, String secret) {
        hook = new AclClientRPCHook(new SessionCredentials(user, secret));
    }

    /** What signs requests; null where nobody asks for it. */
    RPCHook hook() {
        return hook;
    }

    /** Every client is a connection and a client id of its own, as if it ran on a machine of its own. */
    <T extends ClientConfig> T connect(T client) {
        client.setNamesrvAddr(NAMESRV);
        client.setInstanceName(NAME + "-" + INSTANCES.incrementAndGet());
        client.setPersistConsumerOffsetInterval(1000);
        client.setHeartbeatBrokerInterval(5000);
        client.setPollNameServerInterval(5000);
        return client;
    }

    DefaultMQProducer producer() throws Exception {
        return start(new DefaultMQProducer(group() + "-producer", hook));
    }

    TransactionMQProducer transactional(TransactionListener listener) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group() + "-producer");
        producer.setTransactionListener(listener);
        start(producer);
        return producer;
    }

    DefaultMQProducer start(DefaultMQProducer producer) throws Exception {
        connect(producer);
        // Above the default of 3 s: builds and other programs share the machine.
        producer.setSendMsgTimeout(10_000);
        producer.start();
        keep(producer::shutdown);
        return producer;
    }

    /** A push consumer that is not yet subscribed or started; a new group begins at the first message. */
    DefaultMQPushConsumer consumer(String group) {
        return prepare(new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely()));
    }

    DefaultMQPushConsumer prepare(DefaultMQPushConsumer consumer) {
        connect(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        return consumer;
    }

    void start(DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        keep(consumer::shutdown);
    }

    /** Starts a consumer that fills the inbox. */
    DefaultMQPushConsumer listen(String group, String topic, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = consumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(into(inbox));
        start(consumer);
        return consumer;
    }

    Inbox listen() throws Exception {
        Inbox inbox = new Inbox();
        listen(group(), topic(), inbox);
        return inbox;
    }

    static MessageListenerConcurrently into(Inbox inbox) {
        return (messages, context) -> {
            messages.forEach(inbox::add);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    DefaultLitePullConsumer puller(String group) {
        DefaultLitePullConsumer consumer = connect(new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    DefaultMQAdminExt admin() throws Exception {
        DefaultMQAdminExt admin = connect(new DefaultMQAdminExt(hook, 10_000));
        admin.start();
        keep(admin::shutdown);
        return admin;
    }

    /** A message of this scenario; the label travels as a property. */
    Message message(String label) {
        return message(topic(), label);
    }

    static Message message(String topic, String label) {
        Message message = new Message(topic, label.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty(LABEL, label);
        return message;
    }

    static String label(MessageExt message) {
        return message.getUserProperty(LABEL);
    }

    static SendResult ok(SendResult result) {
        Scenario.check(result.getSendStatus() == SendStatus.SEND_OK, "send status %s", result.getSendStatus());
        return result;
    }

    static List<String> labels(String stem, int count) {
        return IntStream.range(0, count).mapToObj(i -> stem + i).toList();
    }

    <T extends AutoCloseable> T keep(T client) {
        clients.add(client);
        return client;
    }

    void close() {
        for (AutoCloseable client : List.copyOf(clients)) {
            try {
                client.close();
            } catch (Exception problem) {
                // The verdict is out; a client that cannot close (the server is gone) changes nothing.
                problem.printStackTrace();
            }
        }
    }
}
