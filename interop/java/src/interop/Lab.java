package interop;

import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.SessionCredentialsProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumerBuilder;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/** What one scenario works with: its names, its clients (closed at the end) and its labelled messages. */
final class Lab {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final boolean REDSTART = "redstart".equals(System.getenv("INTEROP_SERVER"));
    /** Messages of this run are told from what an earlier one left behind. */
    private static final String RUN = Long.toString(System.currentTimeMillis(), 36);
    private static final String LABEL = "interop";
    private static final String PRIMER = "primer";

    private final String name;
    private final List<Closeable> clients = Collections.synchronizedList(new ArrayList<>());
    private volatile String step = "starting";
    private SessionCredentialsProvider credentials;

    Lab(String scenario) {
        name = "java-" + scenario;
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
        credentials = new StaticSessionCredentialsProvider(user, secret);
    }

    ClientConfiguration configuration() {
        boolean plain = name.equals("java-plaintext")
            || !name.equals("java-tls") && !System.getenv().getOrDefault("INTEROP_PLAINTEXT", "").isEmpty();
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(System.getenv("INTEROP_ENDPOINT"))
            .enableSsl(!plain)
            // Above the default of 3 s: builds and other programs share the machine.
            .setRequestTimeout(Duration.ofSeconds(10));
        if (credentials != null) {
            builder.setCredentialProvider(credentials);
        }
        return builder.build();
    }

    Producer producer(String... topics) throws ClientException {
        return keep(PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(topics).build());
    }

    Producer transactional(TransactionChecker checker) throws ClientException {
        return keep(PROVIDER.newProducerBuilder().setClientConfiguration(configuration())
            .setTopics(topic()).setTransactionChecker(checker).build());
    }

    Reader reader() throws ClientException {
        return reader(group(), topic(), FilterExpression.SUB_ALL);
    }

    Reader reader(String group, String topic, FilterExpression filter) throws ClientException {
        return new Reader(keep(PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration())
            .setConsumerGroup(group)
            // Apache's proxy refuses to wait less than 5 s.
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(topic, filter)).build()));
    }

    interface Listener {
        boolean consume(String label, MessageView message);
    }

    interface Sending {
        void send() throws Exception;
    }

    /**
     * Starts a push consumer and returns when it receives. A new group begins at the newest message of its first
     * receive, and the client does not say when that was, so primers are sent until one arrives.
     */
    void push(Listener listener, Sending primer) throws Exception {
        step("starting the push consumer");
        CountDownLatch primed = new CountDownLatch(1);
        PushConsumerBuilder builder = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration())
            .setConsumerGroup(group())
            .setSubscriptionExpressions(Map.of(topic(), FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                String label = label(message);
                if (label == null || label.equals(PRIMER)) {
                    primed.countDown();
                    return ConsumeResult.SUCCESS;
                }
                return listener.consume(label, message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
            });
        keep(builder.build());
        step("waiting for the push consumer's first message");
        do {
            primer.send();
        } while (!primed.await(500, TimeUnit.MILLISECONDS));
        step("working");
    }

    /** A message of this scenario; the label travels as a property. */
    MessageBuilder message(String label) {
        return message(topic(), label);
    }

    MessageBuilder message(String topic, String label) {
        return PROVIDER.newMessageBuilder().setTopic(topic).addProperty(LABEL, RUN + "/" + label)
            .setBody(label.getBytes(StandardCharsets.UTF_8));
    }

    MessageBuilder primer() {
        return message(PRIMER);
    }

    /** The label, or null for a message that is not of this run. */
    static String label(MessageView message) {
        String label = message.getProperties().getOrDefault(LABEL, "");
        return label.startsWith(RUN + "/") ? label.substring(RUN.length() + 1) : null;
    }

    static boolean isPrimer(MessageView message) {
        String label = label(message);
        return label == null || label.equals(PRIMER);
    }

    /** A name that only this run has. */
    String unique(String name) {
        return name + "-" + RUN;
    }

    <T extends Closeable> T keep(T client) {
        clients.add(client);
        return client;
    }

    void close() {
        for (Closeable client : List.copyOf(clients)) {
            try {
                client.close();
            } catch (Exception problem) {
                // The verdict is out; a client that cannot close (the server is gone) changes nothing.
                problem.printStackTrace();
            }
        }
    }
}
