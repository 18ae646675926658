package interop;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The other end of a cross-protocol pair: the 5.x client, over gRPC. */
final class Grpc {
    record Arrival(MessageView message, long at) {
        String label() {
            return message.getProperties().get("interop");
        }
    }

    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final String PRIMER = "primer";

    interface Sending {
        void send(String label) throws Exception;
    }

    private static ClientConfiguration configuration() {
        return ClientConfiguration.newBuilder().setEndpoints(System.getenv("INTEROP_ENDPOINT"))
            .enableSsl(System.getenv().getOrDefault("INTEROP_PLAINTEXT", "").isEmpty())
            .setRequestTimeout(Duration.ofSeconds(10)).build();
    }

    static Producer producer(Lab lab, String topic) throws Exception {
        return lab.keep(PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(topic)
            .setTransactionChecker(message -> TransactionResolution.UNKNOWN).build());
    }

    static MessageBuilder message(String topic, String label) {
        return PROVIDER.newMessageBuilder().setTopic(topic).addProperty("interop", label)
            .setBody(label.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Starts a push consumer of the group and topic of this name, and returns when it receives: a new group begins at the
     * newest message of its first receive, so primers are sent until one arrives. They are left out of the list.
     */
    static List<Arrival> listen(Lab lab, String name, Sending primer) throws Exception {
        List<Arrival> arrivals = new CopyOnWriteArrayList<>();
        boolean[] primed = {false};
        lab.keep(PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration()).setConsumerGroup(name)
            .setSubscriptionExpressions(Map.of(name, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                Arrival arrival = new Arrival(message, System.currentTimeMillis());
                if (PRIMER.equals(arrival.label())) {
                    primed[0] = true;
                } else {
                    arrivals.add(arrival);
                }
                return ConsumeResult.SUCCESS;
            }).build());
        lab.step("waiting for the first message over gRPC");
        Scenario.check(Inbox.eventually(60, () -> {
            send(primer);
            return primed[0] || pause(primed);
        }), "no primer arrived over gRPC");
        lab.step("working");
        return arrivals;
    }

    /** A consumer that fails every message once it is primed; it does not close by itself. */
    static PushConsumer fail(Lab lab, String name, List<String> failed, Sending primer) throws Exception {
        return consume(lab, name, failed::add, null, primer);
    }

    /** The same for those of `failing` only, or all. */
    static PushConsumer consume(Lab lab, String name, java.util.function.Consumer<String> got, List<String> failing, Sending primer)
        throws Exception {
        boolean[] primed = {false};
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration()).setConsumerGroup(name)
            .setSubscriptionExpressions(Map.of(name, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                String label = message.getProperties().get("interop");
                if (PRIMER.equals(label)) {
                    primed[0] = true;
                    return ConsumeResult.SUCCESS;
                }
                got.accept(label);
                return failing == null || failing.contains(label) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
        lab.step("waiting for the first message over gRPC");
        Scenario.check(Inbox.eventually(60, () -> {
            send(primer);
            return primed[0] || pause(primed);
        }), "no primer arrived over gRPC");
        lab.step("working");
        return consumer;
    }

    /** A consumer of a group that has a position already: no primers. */
    static List<Arrival> join(Lab lab, String name) throws Exception {
        List<Arrival> arrivals = new CopyOnWriteArrayList<>();
        lab.keep(PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration()).setConsumerGroup(name)
            .setSubscriptionExpressions(Map.of(name, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                arrivals.add(new Arrival(message, System.currentTimeMillis()));
                return ConsumeResult.SUCCESS;
            }).build());
        return arrivals;
    }

    private static void send(Sending primer) {
        try {
            primer.send(PRIMER);
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static boolean pause(boolean[] primed) {
        try {
            Thread.sleep(500);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
        return primed[0];
    }

    static Arrival get(List<Arrival> arrivals, String label) throws InterruptedException {
        Scenario.check(Inbox.eventually(40, () -> labels(arrivals).contains(label)), "%s did not come over gRPC, only %s",
            label, labels(arrivals));
        return arrivals.stream().filter(arrival -> label.equals(arrival.label())).findFirst().orElseThrow();
    }

    static List<String> labels(List<Arrival> arrivals) {
        return arrivals.stream().map(Arrival::label).toList();
    }
}
